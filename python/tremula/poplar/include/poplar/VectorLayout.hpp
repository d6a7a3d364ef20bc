/* Layouts of the vectors of a vertex's fields. */
#pragma once

namespace poplar {

/* How a field refers to its elements. SPAN and SHORT_SPAN know their size(); the others do not. */
enum class VectorLayout {
  NOT_VECTOR,
  SPAN,
  SHORT_SPAN,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128,
  ONE_PTR,
  COMPACT_PTR
};

/* The same for a list of vectors. All of them know the sizes here. */
enum class VectorListLayout {
  NOT_VECTOR_LIST,
  ONE_PTR,
  SCALED_PTR32,
  SCALED_PTR64,
  SCALED_PTR128,
  DELTAN,
  DELTANELEMENTS,
  COMPACT_DELTAN
};

} // namespace poplar
