/* Vector and its layouts, under the name that older codelets include. */
#pragma once

#include "InOutTypes.hpp"
