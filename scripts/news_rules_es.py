"""Six rules that find names in Spanish news, as sources of labels for `aggregate --code scripts/news_rules_es.py`."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeAlias

from spacy.tokens import Doc, Span

from spacy_crfseq import registry

Rule: TypeAlias = Callable[[Doc], Iterator[Span]]

NAME = re.compile(r"[^\W\d_a-zß-ÿ]['\u2019]?[\w.'\u2019-]*$|[A-Z]\.$")
ACRONYM = re.compile(r"[A-Z]{2,6}$")
ROMAN = re.compile(r"[IVXL]+$")
LINKS = frozenset(("de", "del", "la", "las", "los", "el", "y", "e"))
AGENCIES = frozenset(("EFE", "EFECOM", "Efe", "AGI"))
TITLES = frozenset(
    "presidente presidenta ministro ministra portavoz secretario secretaria consejero consejera alcalde alcaldesa "  # noqa: SIM905
    "diputado diputada senador senadora candidato candidata director directora entrenador técnico jugador delantero "
    "centrocampista defensa portero juez jueza magistrado magistrada fiscal general coronel capitán comandante obispo "
    "arzobispo cardenal rey reina príncipe princesa doctor doctora abogado abogada escritor escritora actor actriz "
    "cantante pintor vicepresidente dirigente líder gobernador gobernadora embajador embajadora canciller "
    "ex mandatario periodista poeta torero ciclista tenista don doña Don Doña señor señora Sr. Dr.".split()
)
SPEECH = frozenset(
    "dijo afirmó señaló indicó explicó declaró aseguró manifestó añadió destacó anunció recordó subrayó comentó "  # noqa: SIM905
    "precisó agregó reconoció insistió expresó sostuvo apuntó informó admitió advirtió".split()
)
BODIES = frozenset(
    "Tribunal Ministerio Partido Banco Universidad Consejo Asociación Instituto Comisión Federación Confederación "  # noqa: SIM905
    "Asamblea Secretaría Departamento Dirección Fundación Sindicato Unión Agencia Audiencia Juzgado Fiscalía "
    "Organización Cámara Comité Grupo Compañía Corporación Consejería Consellería Policía Guardia Ejército Fuerzas "
    "Colegio Sociedad Centro Oficina Real Club Atlético Deportivo Parlamento Congreso Senado Gobierno Ejecutivo "
    "Ayuntamiento Diputación Junta Generalitat Govern Izquierda Convergencia Coalición Frente Movimiento Caja Bolsa "
    "Empresa Editorial Radio Televisión Defensoría Jurado".split()
)
EVENTS = frozenset(
    "Copa Copas Liga Supercopa Juegos Mundial Mundiales Campeonato Premio Premios Cumbre Ley Constitución Tratado "  # noqa: SIM905
    "Acuerdo Plan Festival Feria Torneo Trofeo Vuelta Tour Giro Código Declaración Congreso Eurocopa Nasdaq Internet "
    "Dow Ibovespa Operación Programa Estatuto Reglamento Proyecto".split()
)
PLACES = frozenset(
    "ciudad localidad provincia municipio barrio estado calle plaza isla departamento región comarca puerto "  # noqa: SIM905
    "aeropuerto capital población sur norte este oeste frontera".split()
)


@registry.sources("noticias.datelines.v1")
def datelines() -> Rule:
    """Return a rule for places and agencies, as in Sao Paulo ( Brasil ) , 23 may ( EFECOM )."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        place = next((i for i, word in enumerate(words[1:14], 1) if word in AGENCIES and words[i - 1] == "("), 0)
        if not place or "," not in words[:place]:
            return
        yield Span(doc, place, place + 1, "ORG")
        begin = 0
        for i, word in enumerate(words[: words.index(",") + 1]):
            if word in "(),-/":
                if begin < i and _is_name(words[begin]):
                    yield Span(doc, begin, i, "LOC")
                begin = i + 1

    return find


@registry.sources("noticias.people.v1")
def people() -> Rule:
    """Return a rule for names after a title and beside a verb of speech."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        for place, word in enumerate(words):
            after = place + 1 + (words[place + 1 : place + 2] == [","])
            if word in TITLES | SPEECH and after < len(words) and words[after] not in BODIES:
                end = _end_of_names(words, after, 5, ("de", "la", "del"))
                if end - after >= 2:
                    yield Span(doc, after, end, "PER")
            if word in SPEECH:
                begin = place
                while begin > max(0, place - 4) and _is_name(words[begin - 1]):
                    begin -= 1
                if place - begin in (2, 3) and words[begin] not in BODIES:
                    yield Span(doc, begin, place, "PER")

    return find


@registry.sources("noticias.organisations.v1")
def organisations() -> Rule:
    """Return a rule for names that begin with a word such as Tribunal."""
    return _beginning_with(BODIES, "ORG")


@registry.sources("noticias.events.v1")
def events() -> Rule:
    """Return a rule for competitions, laws and prizes, which begin with a word such as Copa."""
    return _beginning_with(EVENTS, "MISC")


@registry.sources("noticias.acronyms.v1")
def acronyms() -> Rule:
    """Return a rule for acronyms, such as ONU, in a text that is not in capitals."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        if sum(word.islower() for word in words) < len(words) / 3:
            return
        for place, word in enumerate(words):
            if ACRONYM.match(word) and not ROMAN.match(word) and word not in ("EEUU", "EE", "UU", "DNI"):
                yield Span(doc, place, place + 1, "ORG")

    return find


@registry.sources("noticias.places.v1")
def places() -> Rule:
    """Return a rule for names after a word such as ciudad, and before a country in brackets."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        for place, word in enumerate(words):
            begin = place + 2 if words[place + 1 : place + 2] == ["de"] else place + 1
            if word in PLACES and begin == place + 2:
                end = _end_of_names(words, begin, 4, ("de", "del", "la"))
                if end > begin and words[begin] not in BODIES:
                    yield Span(doc, begin, end, "LOC")

    return find


def _beginning_with(heads: Collection[str], label: str) -> Rule:
    """Return a rule for names that begin with some words."""

    def find(doc: Doc) -> Iterator[Span]:
        words = _words(doc)
        end = 0
        for place, word in enumerate(words):
            if place >= end and word in heads:
                end = _end_of_names(words, place + 1, 9, LINKS)
                yield Span(doc, place, end, label)

    return find


def _words(doc: Doc) -> list[str]:
    return [token.text for token in doc]


def _is_name(word: str) -> bool:
    return word[0].isupper() and NAME.match(word) is not None


def _end_of_names(words: Sequence[str], begin: int, most: int, links: Collection[str] = ()) -> int:
    """Return the end of a row of at most so many words from a word on: names, and between them small words."""
    end = begin
    for place in range(begin, min(len(words), begin + most)):
        if _is_name(words[place]):
            end = place + 1
        elif words[place] not in links:
            break
    return end
