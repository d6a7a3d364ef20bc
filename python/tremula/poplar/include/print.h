/* printf() of codelets: the C library's. */
#ifndef TREMULA_PRINT_H_
#define TREMULA_PRINT_H_

#include <stdio.h>

#endif // TREMULA_PRINT_H_
