"""Preprocessors: steps that learn from a dataset and then transform datasets and batches, with Ray's names.

    from headrace.data.preprocessors import Chain, OneHotEncoder, StandardScaler

    steps = Chain(StandardScaler(columns=["age"]), OneHotEncoder(columns=["city"]))
    train = steps.fit_transform(train)
    steps.transform_batch({"age": [31.0], "city": ["lagos"]})

docs/preprocessors.md explains them. A user's preprocessors derive from
headrace.data.preprocessor.Preprocessor.
"""

from headrace.data.preprocessors.chain import Chain
from headrace.data.preprocessors.concatenator import Concatenator
from headrace.data.preprocessors.discretizer import CustomKBinsDiscretizer, UniformKBinsDiscretizer
from headrace.data.preprocessors.encoder import (
    Categorizer,
    LabelEncoder,
    MultiHotEncoder,
    OneHotEncoder,
    OrdinalEncoder,
)
from headrace.data.preprocessors.hasher import FeatureHasher
from headrace.data.preprocessors.imputer import SimpleImputer
from headrace.data.preprocessors.normalizer import Normalizer
from headrace.data.preprocessors.scaler import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from headrace.data.preprocessors.tokenizer import Tokenizer
from headrace.data.preprocessors.torch import TorchVisionPreprocessor
from headrace.data.preprocessors.transformer import PowerTransformer
from headrace.data.preprocessors.vectorizer import CountVectorizer, HashingVectorizer

__all__ = [
    "Categorizer",
    "Chain",
    "Concatenator",
    "CountVectorizer",
    "CustomKBinsDiscretizer",
    "FeatureHasher",
    "HashingVectorizer",
    "LabelEncoder",
    "MaxAbsScaler",
    "MinMaxScaler",
    "MultiHotEncoder",
    "Normalizer",
    "OneHotEncoder",
    "OrdinalEncoder",
    "PowerTransformer",
    "RobustScaler",
    "SimpleImputer",
    "StandardScaler",
    "Tokenizer",
    "TorchVisionPreprocessor",
    "UniformKBinsDiscretizer",
]
