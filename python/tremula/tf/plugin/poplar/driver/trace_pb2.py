"""IpuTraceEvent: what happened on a device, and when. The table is that of src/tf/trace.proto,
which says where its numbers come from."""

from tremula.tf.plugin.poplar.driver import _messages

_messages.make(globals(), "trace.proto", package="tensorflow", messages={
    "IpuTraceCompileBeginEvent": ("bytes deprecated_1 1", "bytes module_name 2"),
    "IpuTraceCompileEndEvent": (
        "int64 duration 1", "bytes module_name 2", "bytes tensor_map 3",
        "bytes instruction_info 4", "bytes compilation_report 101", "bytes poplar_graph 102"),
    "IpuTraceDataTransferEvent": ("bytes data_transfer 1",),
    "IpuTraceLoadEngineEvent": ("bytes module_name 1",),
    "IpuTraceExecuteEvent": ("bytes activity_trace 1", "bytes module_name 2",
                             "bytes execution_report 101"),
    "IpuTraceEvent": (
        "double timestamp 1", "int32 ordinal 2", "enum IpuTraceEvent.Type type 3",
        "oneof msg IpuTraceCompileBeginEvent compile_begin 5",
        "oneof msg IpuTraceCompileEndEvent compile_end 6",
        "oneof msg IpuTraceDataTransferEvent data_transfer 7",
        "oneof msg IpuTraceLoadEngineEvent load_engine 8",
        "oneof msg IpuTraceExecuteEvent execute 9")},
    enums={"IpuTraceEvent.Type": (
        "COMPILE_BEGIN", "COMPILE_END", "HOST_TO_DEVICE_TRANSFER", "DEVICE_TO_HOST_TRANSFER",
        "LOAD_ENGINE", "EXECUTE")})
