"""PopVision's analysis API over profiles that Tremula writes.

    import pva
    report = pva.openReport("tf_report__.../profile.pop")
    print(report.compilation.graph.numComputeSets)
    for step in report.execution.steps:
        print(step.program.name, step.ipus[0].cycles)

Everything is read when it is asked for. Cycles are a tile's clock cycles, bytes are the IPU's; all
are estimates (docs/cost_model.md). The files: docs/profile_format.md.
"""

from pva.compilation import (AlwaysLiveVariable, CompilationReport, Graph, Ipu,
                             LivenessProgramStep, LoweredVariable, LoweredVariables, Target, Tile)
from pva.execution import ActiveCycles, ExecutionReport, Run, Step, StepOnIpu
from pva.operations import DebugContext, Operation, OperationAnalysis
from pva.programs import (ComputeSet, Program, ProgramVisitor, Vertex, VertexType)
from pva.report import (InstrumentationSettings, PoplarVersion, ProfileReportVersion, Report,
                        openReport)
from pva.trace import Event, openTrace

__all__ = [
    "ActiveCycles", "AlwaysLiveVariable", "CompilationReport", "ComputeSet", "DebugContext",
    "Event", "ExecutionReport", "Graph", "InstrumentationSettings", "Ipu", "LivenessProgramStep",
    "LoweredVariable", "LoweredVariables", "Operation", "OperationAnalysis", "PoplarVersion",
    "ProfileReportVersion", "Program", "ProgramVisitor", "Report", "Run", "Step", "StepOnIpu",
    "Target", "Tile", "Vertex", "VertexType", "openReport",
    "openTrace",
]
