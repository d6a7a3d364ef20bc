"""TF_POPLAR_FLAGS, put together in the ways that programs do."""
import os
from os import environ

NAME = "cache"
OPTIONS = {"executable_cache_path": os.path.join("/tmp", NAME), "use_ipu_modle": True}
WORDS = ["--use_ipu_model"]
WORDS.append("--log_cycle_coutn=0")

os.environ["TF_POPLAR_FLAGS"] = f"--executable_cache_path={os.path.join('/tmp', NAME)}"
os.environ["TF_POPLAR_FLAGS"] = os.environ.get("TF_POPLAR_FLAGS", "") + " --log_cycle_cuont=0"  #! unknown-option
os.environ["TF_POPLAR_FLAGS"] += " --max_infeed_treads=2"  #! unknown-option
os.environ.setdefault("TF_POPLAR_FLAGS", "--executable_cache_pth={}".format(NAME))  #! unknown-option
os.environ.update({"TF_POPLAR_FLAGS": "--use_ipu_model --show_progress_baar=true"})  #! unknown-option
os.environ.update(TF_POPLAR_FLAGS="--executable_cache_path=%s --use_ipu_model" % NAME)
os.environ["TF_POPLAR_FLAGS"] = " ".join(f"--{key}={value}" for key, value in OPTIONS.items())  #! unknown-option
environ["TF_POPLAR_FLAGS"] = " ".join(WORDS)  #! unknown-option
os.environ["TF_POPLAR_FLAGS"] = os.environ["MORE_FLAGS"]
os.environ["OTHER_FLAGS"] = "--unknown"
