/* popops::Operation, under the name that older programs include. */
#pragma once

#include "OperationDef.hpp"
