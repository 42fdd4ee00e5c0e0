"""Find what features declare: those of the rings by their place, plugins by their entry points."""

from __future__ import annotations

import importlib.util
import pkgutil
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Generic, TypeVar

import msgspec

from gatemark.core.errors import GatemarkError, UsageError
from gatemark.core.text import did_you_mean

T = TypeVar("T")

ENTRY_POINT_GROUP = "gatemark"
PLUGINS = "gatemark.plugins."
"""The package of the plugins that come with Gatemark."""
FEATURE_FOLDERS = ("gatemark", "gatemark.checks", "gatemark.release", "gatemark.server")
"""Packages whose packages are features; plugins come by entry point."""
# Whatever a stranger's module may do wrong while it is imported; exits and interrupts pass.
_LOADING_ERRORS = (
    ImportError,
    SyntaxError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    EOFError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    ReferenceError,
    RuntimeError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
    GatemarkError,
)


class Registry(Generic[T]):
    """The plugins of one kind, loaded when first asked for.

    A module holds one plugin under the attribute of its kind, or several as a tuple. If a module
    cannot be imported, the other plugins stay usable, and asking for a plugin of that module says
    which module broke and why.
    """

    def __init__(
        self,
        *,
        kind: str,
        places: tuple[str, ...],
        attribute: str,
        plugin_type: type[T],
        name_of: Callable[[T], str],
    ) -> None:
        self.kind = kind
        self._places = places
        self._attribute = attribute
        self._plugin_type = plugin_type
        self._name_of = name_of
        self._loaded: dict[str, T] | None = None
        self._alone: dict[str, T | None] = {}
        self.broken: dict[str, str] = {}

    def names(self) -> tuple[str, ...]:
        """Every plugin's name, sorted."""
        return tuple(sorted(self._load_all()))

    def __iter__(self) -> Iterator[T]:
        plugins = self._load_all()
        return iter([plugins[name] for name in sorted(plugins)])

    def in_order(self) -> Iterator[T]:
        """Return every plugin in the order in which they are listed, those of others last."""
        return iter([*self._load_all().values()])

    def __contains__(self, name: str) -> bool:
        return self.find(name) is not None

    def find(self, name: str, *, near: str | None = None) -> T | None:
        """Return the plugin of that name, or None.

        ``near`` is a package whose place is tried before all plugins are loaded.
        """
        plugin = self._find_by_module_name(name)
        if plugin is None and near is not None and self._loaded is None:
            plugin = self._alone[name] = self._load_named(near).get(name)
        return self._load_all().get(name) if plugin is None else plugin

    def get(self, name: str, *, near: str | None = None) -> T:
        """Return the plugin of that name, or raise an error that helps."""
        plugin = self.find(name, near=near)
        if plugin is not None:
            return plugin
        plugins = self._load_all()
        hint = did_you_mean(name, plugins)
        broken = "".join(
            f"; {module} could not be loaded: {why}" for module, why in self.broken.items()
        )
        known = ", ".join(sorted(plugins)) or "none"
        raise UsageError(f"no {self.kind} is called {name!r} (known: {known}){hint}{broken}")

    def _find_by_module_name(self, name: str) -> T | None:
        """Return the plugin of the module with the same name, without loading all others."""
        if self._loaded is not None:
            return self._loaded.get(name)
        if name not in self._alone:
            word = name.rpartition(".")[2].partition("/")[0].replace("-", "_")
            found = self._load_named(word) if word.isidentifier() else {}
            self._alone[name] = found.get(name)
        return self._alone[name]

    def _load_named(self, word: str) -> dict[str, T]:
        """Return the plugins at all places, with ``word`` in place of the star.

        Entry points count as well if they, or their package, are called ``word``.
        """
        found: dict[str, T] = {}
        for place in self._places:
            if "*" in place and _can_find(place.replace("*", word, 1)):
                self._load(place.replace("*", word, 1), found, is_own=True)
        for point in self._list_entry_points():
            if word == point.name.partition(".")[2] or f".{word}." in point.module:
                self._load(point.module, found)
        return found

    def _list_entry_points(self) -> Iterator[EntryPoint]:
        kind = self.kind.replace(" ", "_")
        for point in entry_points(group=ENTRY_POINT_GROUP):
            if point.name.partition(".")[0] == kind and is_installed(point):
                yield point

    def _load_all(self) -> dict[str, T]:
        if self._loaded is None:
            loaded: dict[str, T] = {}
            # Places may overlap.
            own = dict.fromkeys(one for place in self._places for one in list_modules(place))
            for module in own:
                self._load(module, loaded, is_own=True)
            for point in self._list_entry_points():
                self._load(point.module, loaded)
            self._loaded = loaded
        return self._loaded

    def _load(self, module_name: str, loaded: dict[str, T], *, is_own: bool = False) -> None:
        try:
            module = importlib.import_module(module_name)
        except _LOADING_ERRORS as error:
            words = " ".join(str(error).split())
            kind = "" if isinstance(error, ImportError) else f"{type(error).__name__}: "
            self.broken[module_name] = f"{kind}{words}"
            return
        held = getattr(module, self._attribute, None)
        if held is None and is_own:
            # A helper alongside the plugins.
            return
        plugins = held if isinstance(held, tuple) else (held,)
        if not all(isinstance(plugin, self._plugin_type) for plugin in plugins):
            expected = f"{self._attribute} of type {self._plugin_type.__name__}"
            self.broken[module_name] = f"it has no {expected}"
            return
        for plugin in plugins:
            name = self._name_of(plugin)
            if name in loaded:
                raise UsageError(
                    f"two {self.kind}s are called {name!r}; {module_name} is the second"
                )
            loaded[name] = plugin


def feature_modules(name: str) -> tuple[str, ...]:
    """Return the places of modules called ``name``, one in every feature that has one."""
    return tuple(f"{folder}.*.{name}" for folder in FEATURE_FOLDERS)


def is_installed(point: EntryPoint) -> bool:
    """Whether an entry point can be loaded: plugins that come with Gatemark may be left out."""
    return not point.module.startswith(PLUGINS) or _can_find(point.module)


def _can_find(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def list_modules(place: str) -> list[str]:
    """Return the modules that match a place such as ``gatemark.checks.*.records``."""
    before, star, after = place.partition(".*")
    if not star:
        return [place] if _can_find(place) else []
    if not _can_find(before):
        return []
    beside = pkgutil.iter_modules(importlib.import_module(before).__path__)
    # Plain modules are not imported to look into them: pytest's plugin is one.
    found = [f"{before}.{one.name}{after}" for one in beside if one.ispkg or not after]
    return [module for module in found if _can_find(module)]
