/* printf() of codelets: the C library's. */
#pragma once

#include <stdio.h>
