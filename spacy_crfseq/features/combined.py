"""The feature set of a component: its own templates, and those of its attribute plug-ins."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import ConfigError
from ..types import LexemeFunction
from .attributes import BUILT_IN
from .protocol import Attributes, DocAttributes, LabelAttributes, WordAttributes
from .sets import FeatureSet
from .template_file import Features, TemplateFile

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def with_attributes(features: Features, attributes: Mapping[str, Attributes]) -> FeatureSet:
    """Return features with the attributes of plug-ins, given by the names of their blocks.

    RAISES ConfigError: If two attributes share a name, or a template cannot be read.
    """
    base = features.imported.features if isinstance(features, TemplateFile) else features
    functions, templates = dict[str, LexemeFunction](base.functions), list(base.templates)
    in_docs, of_labels = dict[str, DocAttributes](), dict[str, LabelAttributes]()
    taken = {*BUILT_IN, *functions, *base.token_functions}
    for name, plugin in attributes.items():
        if not _NAME.fullmatch(name):
            raise ConfigError(f"The block {name!r} of attributes must have a name of letters, digits and '_'.")
        block = name.upper()
        own = plugin.functions(block) if isinstance(plugin, WordAttributes) else {}
        names = set(own)
        if isinstance(plugin, DocAttributes):
            in_docs[block] = plugin
            names.update(plugin.names(block))
        elif isinstance(plugin, LabelAttributes):
            of_labels[block] = plugin
            names.update(plugin.names(block))
        if twice := names & taken:
            raise ConfigError(f"The attributes {sorted(twice)} are there twice; rename the block {block.lower()!r}.")
        taken |= names
        functions.update(own)
        templates += plugin.templates(block)
    return FeatureSet(
        tuple(templates), base.bigram_templates, functions, base.token_functions, in_docs, of_labels, base.numbers
    )
