import dataclasses


@dataclasses.dataclass
class Config:
    image: int = 224
    patch: int = 16
    width: int = 384
    depth: int = 6
    heads: int = 6
    classes: int = 1000
    batch_per_replica: int = 64
    epochs: int = 90
    lr: float = 1e-3
    train: str = 'gs://bucket/train-*'
