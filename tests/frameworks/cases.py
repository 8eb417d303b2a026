#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs do with checkpoints, by the frameworks' own means. Knows nothing of h2d; the same
case must print the same values whoever starts it.

usage: cases.py make DIR | cases.py DIR CASE
A case prints one JSON object: the permissions of its mappings as soon as everything is loaded, and
digests of all that it read and wrote.
"""

import faulthandler
import hashlib
import json
import os
import socket
import sys
import threading

import numpy
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

ROWS = 1024
seen = {"permissions": [], "values": {}}


def look(path):
    """Remember how the file is mapped now."""
    found = set(seen["permissions"])
    with open("/proc/self/maps", encoding="utf-8") as maps:
        found |= {line.split()[1] for line in maps if line.rstrip().endswith(path)}
    seen["permissions"] = sorted(found)


def digest(data):
    if isinstance(data, torch.Tensor):
        data = data.detach().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(numpy.ascontiguousarray(data).tobytes()).hexdigest()[:16]


def tell(name, value):
    seen["values"][name] = value if isinstance(value, (str, int)) else digest(value)


def tell_all(prefix, tensors):
    for name in sorted(tensors):
        tell(prefix + name, tensors[name])


def tell_file(path):
    with open(path, "rb") as f:
        tell("file", hashlib.sha256(f.read()).hexdigest()[:16])


# ---------------------------------------------------------------- data


def make(directory):
    torch.manual_seed(7)
    tensors = {
        "f32": torch.randn(ROWS, 1024),
        "bf16": torch.randn(2048, ROWS).to(torch.bfloat16),
        "f16": torch.randn(ROWS, 2048).to(torch.float16),
        "f8": torch.randn(ROWS, ROWS).to(torch.float8_e4m3fn),
        "i64": torch.randint(-(1 << 60), 1 << 60, (ROWS, 512)),
        "u8": torch.randint(0, 256, (3, 1234567), dtype=torch.uint8),
        "empty": torch.empty(0, 4),
        "scalar": torch.tensor(3.5),
    }
    save_file(tensors, f"{directory}/model.safetensors", {"format": "pt"})
    torch.save(tensors, f"{directory}/model.pt")
    import gguf

    writer = gguf.GGUFWriter(f"{directory}/model.gguf", "test")
    for name in ("f32", "f16"):
        writer.add_tensor(name, tensors[name].numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    numpy.save(f"{directory}/array.npy", tensors["f32"].numpy())


# ---------------------------------------------------------------- cases


def load(directory):
    path = f"{directory}/model.safetensors"
    tensors = load_file(path)
    look(path)
    return path, tensors


def load_file_read(directory):
    path, tensors = load(directory)
    tell_all("", tensors)
    tell_file(path)


def load_file_write_whole(directory):
    path, tensors = load(directory)
    torch.set_num_threads(4)
    for tensor in tensors.values():
        if tensor.is_floating_point() and tensor.element_size() > 1:
            tensor.mul_(2).add_(1)
        else:
            tensor.view(torch.uint8).bitwise_xor_(0x5A) if tensor.dim() else tensor.zero_()
    tell_all("", tensors)
    tell_file(path)


def load_file_write_strided(directory):
    path, tensors = load(directory)
    tensors["f32"][::7, 3::5].mul_(-1)
    tensors["bf16"].t()[11].zero_()
    tensors["i64"].diagonal().fill_(5)
    tensors["u8"][1, ::65537] = 9
    tensors["f16"][torch.arange(0, ROWS, 97)] = 0.5
    tensors["scalar"].neg_()
    tell_all("", tensors)
    tell_file(path)


def load_file_write_threads(directory):
    path, tensors = load(directory)
    start = threading.Barrier(8)

    def work(i):
        start.wait()
        for row in range(i, ROWS, 8):  # rows of all threads share pages
            tensors["f32"][row].add_(i + 1)
            tensors["i64"][row, i::8] = i
        tensors["u8"].view(-1)[i::8] = i

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    tell_all("", tensors)
    tell_file(path)


def load_file_write_fork(directory):
    path, tensors = load(directory)
    tensors["f32"][0].zero_()
    end_read, end_write = os.pipe()
    child = os.fork()
    if not child:
        tensors["f32"][1].fill_(1)
        tensors["bf16"].zero_()
        told = {name: digest(tensors[name]) for name in sorted(tensors)}
        os.write(end_write, json.dumps(told).encode())
        os._exit(0)
    os.close(end_write)
    with os.fdopen(end_read, "rb") as pipe:
        for name, value in json.loads(pipe.read()).items():
            tell(f"child {name}", value)
    tell("child status", os.waitpid(child, 0)[1])
    tell_all("before ", tensors)
    tensors["f32"][2].fill_(2)
    tensors["bf16"][5].fill_(4)
    tell_all("after ", tensors)
    tell_file(path)


def load_file_kernel_writes(directory):
    """read(), preadv() and recv() straight into loaded tensors."""
    path, tensors = load(directory)
    with open(path, "rb", buffering=0) as f:
        tell("readinto", f.readinto(memoryview(tensors["f32"].numpy()).cast("B")))
        tell("preadv", os.preadv(f.fileno(), [memoryview(tensors["i64"].numpy()).cast("B")], 4096))
    a, b = socket.socketpair()
    target = memoryview(tensors["u8"][1].numpy())

    def send():
        with a:
            a.sendall(bytes(range(256)) * 256)

    sender = threading.Thread(target=send)
    sender.start()
    got = 0
    with b:
        while n := b.recv_into(target[got:]):
            got += n
    sender.join()
    tell("recv_into", got)
    tell_all("", tensors)
    tell_file(path)


def load_file_train(directory):
    """Loaded weights become parameters as they are, and an optimiser updates them in place."""
    path, tensors = load(directory)
    layer = torch.nn.Linear(1024, ROWS, bias=False, device="meta")
    layer.load_state_dict({"weight": tensors["f32"]}, assign=True)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.5)
    torch.set_num_threads(1)
    layer(torch.ones(2, 1024)).square().mean().backward()
    optimiser.step()
    tell("weight", layer.weight)
    tell("loaded", tensors["f32"])
    tell_file(path)


def load_file_faulthandler(directory):
    faulthandler.enable()
    path, tensors = load(directory)
    faulthandler.disable()
    faulthandler.enable()
    tensors["f32"].add_(1)
    tell_all("", tensors)


def safe_open_tensors(directory):
    path = f"{directory}/model.safetensors"
    with safe_open(path, framework="pt") as f:
        tensors = {name: f.get_tensor(name) for name in f.keys()}
        part = f.get_slice("f32")[100:200, ::3]
        look(path)
    tell("slice", part)
    tell_all("", tensors)
    tensors["bf16"][7].zero_()
    part.zero_()
    tell_all("written ", tensors)
    tell_file(path)


def torch_load_mmap(directory):
    path = f"{directory}/model.pt"
    tensors = torch.load(path, mmap=True, weights_only=True)
    look(path)
    tell_all("", tensors)
    tensors["f16"].add_(1)
    tensors["u8"][2, ::4097] = 3
    tell_all("written ", tensors)
    tell_file(path)


def gguf_reader(directory, mode="r"):
    import gguf

    path = f"{directory}/model.gguf"
    reader = gguf.GGUFReader(path, mode)
    look(path)
    for tensor in reader.tensors:
        tell(tensor.name, tensor.data)
        if mode == "c":
            tensor.data[::3] = 1
            tell(f"written {tensor.name}", tensor.data)
    tell_file(path)


def gguf_reader_copy_on_write(directory):
    gguf_reader(directory, "c")


def numpy_memmap(directory, mode):
    path = f"{directory}/model.safetensors"
    array = numpy.memmap(path, mode=mode, dtype=numpy.uint8)
    look(path)
    tell("before", array)
    array[8192::4096] ^= 0xFF
    if mode == "r+":
        array.flush()
    tell("after", array)
    tell_file(path)


def numpy_memmap_c(directory):
    numpy_memmap(directory, "c")


def numpy_memmap_r_plus(directory):
    numpy_memmap(directory, "r+")


CASES = {
    # name: (what it runs, permissions without h2d, permissions under it)
    "load_file": (load_file_read, "rw-p", "r--p"),
    "load_file, whole tensors written": (load_file_write_whole, "rw-p", "r--p"),
    "load_file, strided writes": (load_file_write_strided, "rw-p", "r--p"),
    "load_file, written by eight threads": (load_file_write_threads, "rw-p", "r--p"),
    "load_file, written before and after fork": (load_file_write_fork, "rw-p", "r--p"),
    "load_file, written by the kernel": (load_file_kernel_writes, "rw-p", "r--p"),
    "load_file, updated by an optimiser": (load_file_train, "rw-p", "r--p"),
    "load_file, faulthandler enabled": (load_file_faulthandler, "rw-p", "r--p"),
    "safe_open": (safe_open_tensors, "rw-p", "r--p"),
    "torch.load(mmap=True)": (torch_load_mmap, "rw-p", "r--p"),
    "gguf.GGUFReader": (gguf_reader, "r--s", "r--s"),
    "gguf.GGUFReader, mode c": (gguf_reader_copy_on_write, "rw-p", "r--p"),
    "numpy.memmap, mode c": (numpy_memmap_c, "rw-p", "r--p"),
    "numpy.memmap, mode r+": (numpy_memmap_r_plus, "rw-s", "rw-s"),
}


def main():
    if sys.argv[1] == "make":
        return make(sys.argv[2])
    if sys.argv[1] == "list":
        print(json.dumps({name: expected for name, (_, *expected) in CASES.items()}))
        return None
    if sys.argv[1] == "versions":
        import gguf  # noqa: F401
        from importlib.metadata import version

        print(json.dumps({n: version(n) for n in ("torch", "safetensors", "gguf", "numpy")}))
        return None
    CASES[sys.argv[2]][0](sys.argv[1])
    print(json.dumps(seen))
    return None


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
