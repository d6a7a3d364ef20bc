/* popops::Operation, under the name that older programs include. */
#ifndef TREMULA_POPOPS_OPERATION_HPP_
#define TREMULA_POPOPS_OPERATION_HPP_

#include "OperationDef.hpp"

#endif // TREMULA_POPOPS_OPERATION_HPP_
