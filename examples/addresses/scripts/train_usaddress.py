"""Train the model of usaddress itself: the program stays, and reads the file that is written here.

    pip install usaddress
    python scripts/train_usaddress.py assets/labeled.xml usaddr.crfsuite

Copy the file over `usaddr.crfsuite` in the folder of the package usaddress.
"""

import sys
from xml.etree import ElementTree

import usaddress

from spacy_crfseq import CRF


def main(data: str, model: str) -> None:
    """Train on a file of labelled addresses with the settings of `parserator train`, and write the model."""
    features, labels = [], []
    for address in ElementTree.parse(data).getroot():
        words = [(word, part.tag) for part in address for word in (part.text or "").split()]
        features.append(usaddress.tokens2features([word for word, _ in words]))
        labels.append([label for _, label in words])
    crf = CRF(c1=0.1, c2=0.01, all_possible_transitions=True).fit(features, labels)
    crf.save(model)
    print(f"{model}: trained on {len(features):,} addresses, {len(crf.state_features_):,} weights")


if __name__ == "__main__":
    main(*sys.argv[1:])
