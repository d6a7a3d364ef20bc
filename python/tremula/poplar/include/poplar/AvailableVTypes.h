/* Which compressed layouts of vectors a target has: the macros VECTOR_AVAIL_... tell; there are
 * none here. */
#ifndef TREMULA_POPLAR_AVAILABLE_VTYPES_H_
#define TREMULA_POPLAR_AVAILABLE_VTYPES_H_
#endif // TREMULA_POPLAR_AVAILABLE_VTYPES_H_
