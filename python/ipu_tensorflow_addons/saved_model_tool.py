"""The tool that converts SavedModels, which is not there yet."""

import tremula

raise ImportError(f"ipu_tensorflow_addons.saved_model_tool is a part of the IPU API that Tremula "
                  f"{tremula.__version__} does not have yet: ipu.serving exports SavedModels.",
                  name="ipu_tensorflow_addons.saved_model_tool")
