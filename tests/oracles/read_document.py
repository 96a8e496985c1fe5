"""Reads the sample document of tests/unit/store with h5py, or changes it behind a valid seal.

usage: read_document.py check FILE
       read_document.py change FILE FOLDER     writes FOLDER/<what was changed>.h5
"""

import hashlib
import math
import re
import shutil
import sys

import h5py
import numpy as np


def check(path):
    with h5py.File(path, "r") as f:
        assert set(f) == {"adapter", "clients", "clusters", "cluster", "evaluation", "large", "note", "parameter",
                          "phase1", "seed"}, set(f)
        a = f.attrs
        assert a["format_version"] == 1 and a["format_version"].dtype == np.int64
        assert isinstance(a["configuration"], str)
        assert a["configuration"] == "[runtime]\nseed = 7\nname = \u00fcber\n"
        assert a["learning_rate"] == 5e-5
        assert list(a["objectives"]) == ["helpfulness", "honesty", ""]
        assert all(isinstance(x, str) for x in a["objectives"])
        assert list(a["sizes"]) == [3, -1, 2**63 - 1]
        assert list(a["weights"]) == [0.25, 0.75]
        assert a["nothing"].shape == (0,) and a["empty_text"] == ""
        assert f["phase1"].attrs["method"] == "apo"

        steps = f["phase1/steps"]
        t = np.arange(300)
        assert steps["round"].dtype == np.int64 and (steps["round"][:] == 10 * t).all()
        loss = steps["loss"]
        assert loss.shape == (300, 2) and loss.dtype == np.float64
        assert loss.attrs["units"] == "nat" and loss.attrs["long_name"] == "loss per objective"
        assert (loss[:, 0] == 1.0 / (1.0 + t)).all() and np.signbit(loss[:, 1]).all()
        gram = steps["gram"][:]
        assert (gram[:, 0, 0] == t).all() and (gram[:, 0, 1] == 1).all()
        assert all(gram[i, 1, 1] == math.sqrt(i) for i in range(300))
        mode = steps["mode"].asstr()[:]
        assert mode[0] == "descent" and mode[1] == "\u03bb \u2264 1"
        assert h5py.check_string_dtype(steps["mode"].dtype) == ("utf-8", 8)

        # Axes: by name, by scale, and with the coordinates of a column of that name.
        assert [d.label for d in steps["gram"].dims] == ["round", "axis1_2", "axis2_2"]
        assert steps["round"].is_scale
        assert (steps["loss"].dims[0][0][:] == 10 * t).all()
        assert list(steps["gram"].dims[2][0][:]) == [0, 1]
        preference = f["clients/preference"]
        assert preference[:].tolist() == [[0.1, 0.9], [0.5, 0.5], [1.0, 0.0]]
        assert [d.label for d in preference.dims] == ["client", "objective"]
        assert list(preference.dims[0][0][:]) == [0, 1, 2]
        share = f["clusters/share"]
        assert list(f["clusters/client"][:]) == [4, 5], "a column keeps its name"
        assert list(share.dims[0][0][:]) == [0, 1, 2] and share.dims[0].label == "client"

        responses = f["evaluation/responses"]
        assert responses["score"].shape == (0, 3) and responses["response"].shape == (0,)
        assert list(f["clients/name"].asstr()[:]) == ["a", "", "long name"]
        assert f["adapter"].dtype == np.float32 and np.isnan(f["adapter"][2])
        assert f["seed"][()] == 42 and f["seed"].shape == ()
        assert f["note"].asstr()[()] == "a scalar text"
        assert f["large"].shape == (2, 100000)
        assert [d.label for d in f["large"].dims] == ["cluster", "parameter"]
        assert f["parameter"].id.get_storage_size() == 0, "no numbers along a long axis"
        assert (np.abs(f["large"][:].ravel() - np.sin(np.arange(200000.0))) < 1e-12).all()

        # Every data set: its own hash; a checksum per chunk; no time stamps.
        count = 0

        def visit(name, item):
            nonlocal count
            if not isinstance(item, h5py.Dataset):
                return
            if name == "parameter":
                return
            count += 1
            digest = hashlib.sha256(np.ascontiguousarray(item[()]).tobytes()).hexdigest()
            assert item.attrs["sha256"] == digest, name
            assert item.fletcher32 == (item.shape != () and item.size > 0), name
            assert h5py.h5g.get_objinfo(item.id).mtime == 0, name

        f.visititems(visit)
        assert count >= 18, count
        assert re.fullmatch("[0-9a-f]{64}", f.attrs["content_sha256"])

    data = open(path, "rb").read()
    found = re.fullmatch(rb"(.*)\napo-seal 1 sha256 ([0-9a-f]{64}) bytes (\d{20})\n", data, re.S)
    assert found and hashlib.sha256(found[1]).hexdigest().encode() == found[2]
    assert int(found[3]) == len(found[1])
    try:
        import pandas as pd
    except ImportError:
        return
    with h5py.File(path, "r") as f:
        g = f["phase1/steps"]
        frame = pd.DataFrame({k: g[k][:] for k in g if g[k].ndim == 1 and len(g[k]) == 300})
        assert len(frame) == 300


def set_value(f):
    f["phase1/steps/loss"][17, 0] += 1e-9


def set_scale(f):
    f["clients/objective"][1] = 7


CHANGES = {
    "value": set_value,
    "attribute": lambda f: f.attrs.modify("learning_rate", 6e-5),
    "remove": lambda f: f.pop("seed"),
    "rename": lambda f: f.move("clients/name", "clients/title"),
    "units": lambda f: f["phase1/steps/loss"].attrs.modify("units", "bit"),
    "soft_link": lambda f: f.__setitem__("link", h5py.SoftLink("/seed")),
    "external_link": lambda f: f.__setitem__("link", h5py.ExternalLink("/etc/passwd", "/x")),
    "foreign_attribute": lambda f: f["seed"].attrs.create("note", "hand-made"),
    "foreign_type": lambda f: f.create_dataset("complex", data=np.zeros(3, dtype=np.complex128)),
    "scale": set_scale,
    "version": lambda f: f.attrs.modify("document_version", 2),
    "dimension": lambda f: setattr(f["clients/preference"].dims[1], "label", "task"),
    "hidden": lambda f: f["seed"].attrs.create("generated", 1),
    "nothing": lambda f: None,
}


def change(source, folder):
    for name, function in CHANGES.items():
        target = f"{folder}/{name}.h5"
        shutil.copyfile(source, target)
        with h5py.File(target, "r+") as f:
            function(f)
        seal_anew(target)


def seal_anew(target):
    data = open(target, "rb").read()
    data = re.sub(rb"\napo-seal 1 sha256 [0-9a-f]{64} bytes \d{20}\n$", b"", data)
    seal = f"\napo-seal 1 sha256 {hashlib.sha256(data).hexdigest()} bytes {len(data):020d}\n"
    open(target, "wb").write(data + seal.encode())


if __name__ == "__main__":
    {"check": check, "change": change}[sys.argv[1]](*sys.argv[2:])
