/* Which compressed layouts of vectors a target has: the macros VECTOR_AVAIL_... tell; there are
 * none here. */
#pragma once
