"""The public data sets in the form in which their sites give them out; nothing is downloaded here.

Each function takes the directory that holds a set's files, under their original names; each file may be packed as .xz
or .gz. Of a set with one file, that file's own path will do as well. Cells stay text as they stand in the file, less
the blank before them and the full stop after a label: what they mean in numbers is the business of a study.
"""

from pathlib import Path

import numpy as np

from masquerade_core.errors import BadInput
from masquerade_lab._original_files import (
    Original,
    Split,
    Table,
    read_arrays,
    read_libsvm,
    read_numbers,
    read_table,
)

__all__ = [
    "ADULT_COLUMNS",
    "BANK_COLUMNS",
    "KDDCUP_COLUMNS",
    "Table",
    "a9a",
    "adult",
    "adult_below",
    "bank",
    "breast_cancer_original",
    "credit_card",
    "har",
    "kddcup",
]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ADULT_COLUMNS = _words("""
    age workclass fnlwgt education education-num marital-status occupation relationship race sex capital-gain
    capital-loss hours-per-week native-country income
""")
"""Adult's columns as its adult.names lists them, and what the label is called here."""

BANK_COLUMNS = _words("""
    age job marital education default housing loan contact month day_of_week duration campaign pdays previous poutcome
    emp.var.rate cons.price.idx cons.conf.idx euribor3m nr.employed y
""")
"""The columns of bank-additional-full.csv, whose first line they are."""

KDDCUP_COLUMNS = _words("""
    duration protocol_type service flag src_bytes dst_bytes land wrong_fragment urgent hot num_failed_logins logged_in
    num_compromised root_shell su_attempted num_root num_file_creations num_shells num_access_files num_outbound_cmds
    is_host_login is_guest_login count srv_count serror_rate srv_serror_rate rerror_rate srv_rerror_rate same_srv_rate
    diff_srv_rate srv_diff_host_rate dst_host_count dst_host_srv_count dst_host_same_srv_rate dst_host_diff_srv_rate
    dst_host_same_src_port_rate dst_host_srv_diff_host_rate dst_host_serror_rate dst_host_srv_serror_rate
    dst_host_rerror_rate dst_host_srv_rerror_rate label
""")
"""The columns of KDD Cup 1999 as its kddcup.names lists them, and the label."""

_BREAST_CANCER_COLUMNS = _words("""
    id clump_thickness cell_size_uniformity cell_shape_uniformity marginal_adhesion epithelial_cell_size bare_nuclei
    bland_chromatin normal_nucleoli mitoses class
""")
_CREDIT_CARD_COLUMNS = ("Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class")
_A9A_FEATURES = 123
_HAR_CLASSES = 6


_A9A = Original(
    "LIBSVM's a9a", ("a9a", "a9a.t"), "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html#a9a"
)
_ADULT = Original("UCI Adult", ("adult.data", "adult.test"), "https://doi.org/10.24432/C5XW20")
_BREAST_CANCER = Original(
    "UCI Breast Cancer Wisconsin (Original)", ("breast-cancer-wisconsin.data",), "https://doi.org/10.24432/C5HP4Z"
)
_BANK = Original("UCI Bank Marketing", ("bank-additional-full.csv",), "https://doi.org/10.24432/C5K306")
_KDDCUP = Original(
    "KDD Cup 1999", ("kddcup.data_10_percent", "corrected"), "https://kdd.ics.uci.edu/databases/kddcup99/kddcup99.html"
)
_CREDIT_CARD = Original(
    "Kaggle's Credit Card Fraud Detection",
    ("creditcard.csv",),
    "https://www.kaggle.com/datasets/mlg-ulb/creditcardfraud",
)
_HAR = Original(
    "UCI Human Activity Recognition Using Smartphones",
    ("train/X_train.txt", "train/y_train.txt", "test/X_test.txt", "test/y_test.txt"),
    "https://doi.org/10.24432/C54S4K",
)


def a9a(directory: Path | str) -> Split:
    """Read LIBSVM's a9a and a9a.t: Adult, made binary.

    Returns
    -------
    X_train, y_train, X_test, y_test
        float64: matrices of 0 and 1 of shapes (32561, 123) and (16281, 123), and labels -1 or +1 (more than 50,000 $).

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    X, y = read_libsvm(_A9A.find(Path(directory), "a9a"), _A9A_FEATURES)
    X_test, y_test = read_libsvm(_A9A.find(Path(directory), "a9a.t"), _A9A_FEATURES)
    return X, y, X_test, y_test


def adult(directory: Path | str) -> tuple[Table, Table]:
    """Read UCI Adult: its 32561 training and 16281 test records.

    The label, ``income``, is ``<=50K`` or ``>50K`` in both; "?" stands for what is missing.

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    train, test = (
        read_table(_ADULT.find(Path(directory), name), ADULT_COLUMNS, comment="|", label_stop=True)
        for name in _ADULT.files
    )
    return train, test


def adult_below(directory: Path | None) -> tuple[Table, Table]:
    """Read UCI Adult as :func:`adult` does: from a directory's folder ``adult``, or from the directory itself."""
    root = directory or Path()
    return adult(root / "adult" if (root / "adult").is_dir() else root)


def bank(directory: Path | str) -> Table:
    """Read UCI Bank Marketing, bank-additional-full.csv: 41188 records of 20 columns and the label ``y``, by date.

    Raises
    ------
    BadInput
        The file is missing or is not what its name says.
    """
    return read_table(
        _BANK.find(Path(directory), "bank-additional-full.csv"), BANK_COLUMNS, heading=True, delimiter=";"
    )


def breast_cancer_original(directory: Path | str) -> Table:
    """Read UCI Breast Cancer Wisconsin (Original): 699 records; ``class`` is 2 (benign) or 4 (malignant).

    16 records have "?" in ``bare_nuclei``.

    Raises
    ------
    BadInput
        The file is missing or is not what its name says.
    """
    return read_table(_BREAST_CANCER.find(Path(directory), "breast-cancer-wisconsin.data"), _BREAST_CANCER_COLUMNS)


def credit_card(directory: Path | str) -> Table:
    """Read Kaggle's card payments: Time, V1 to V28, Amount and ``Class``, which is 1 for fraud.

    A file given by its own path may hold any selection of the 284807 records, with the same columns.

    Raises
    ------
    BadInput
        The file is missing or is not what its name says.
    """
    return read_table(_CREDIT_CARD.find(Path(directory), "creditcard.csv"), _CREDIT_CARD_COLUMNS, heading=True)


def kddcup(directory: Path | str) -> tuple[Table, Table]:
    """Read KDD Cup 1999: the 494021 records of the 10 % training set and the 311029 of the corrected test set.

    The label is ``normal`` or an attack's name, without the file's full stop.

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    train, test = (
        read_table(_KDDCUP.find(Path(directory), name), KDDCUP_COLUMNS, label_stop=True) for name in _KDDCUP.files
    )
    return train, test


def har(directory: Path | str) -> Split:
    """Read UCI HAR: sensors of smartphones that 30 persons wore.

    Parameters
    ----------
    directory : path
        ``UCI HAR Dataset`` or the directory that holds it; or an .npz file, or the directory of exactly one, with the
        arrays X_train, y_train, X_test and y_test.

    Returns
    -------
    X_train, y_train, X_test, y_test
        float64, of shapes (7352, 561), (7352,), (2947, 561) and (2947,): features in [-1, 1] and labels 1 to 6.

    Raises
    ------
    BadInput
        A file is missing or is not what its name says.
    """
    place = Path(directory)
    inner = place / "UCI HAR Dataset"
    packed = [place] if place.suffix == ".npz" else sorted(place.glob("*.npz")) if not inner.is_dir() else []
    if len(packed) == 1:
        X, y, X_test, y_test = read_arrays(packed[0], _HAR.hint)
    else:
        root = inner if inner.is_dir() else place
        X, y, X_test, y_test = (read_numbers(_HAR.find(root, name)) for name in _HAR.files)
        y, y_test = y.ravel(), y_test.ravel()
    for name, part, labels in (("training", X, y), ("test", X_test, y_test)):
        good = part.ndim == 2 and part.shape == (len(labels), X.shape[1]) and np.isfinite(part).all()  # noqa: PLR2004
        if not good or not np.isin(labels, np.arange(1, _HAR_CLASSES + 1)).all():
            raise BadInput(
                f"the {name} part in {place} is not {_HAR.title}: its shapes or labels are different", _HAR.hint
            )
    return X, y, X_test, y_test
