"""Values of variables to files and from files, which `ipu.utils` has too."""

from tremula.tf.ipu.exporting import (
    export_variables_from_live_model, export_variables_from_live_session,
    import_data_in_live_model, import_data_in_live_session)

__all__ = ["export_variables_from_live_model", "export_variables_from_live_session",
           "import_data_in_live_model", "import_data_in_live_session"]
