/* Names of programs, under which events and files know them, and folders for those files. */
#ifndef TREMULA_TF_NAMES_H_
#define TREMULA_TF_NAMES_H_

#include <stdbool.h>

/* A name that no other program of this process has got: the module's, made fit for a file's name,
 * and from the second of that name on a number. Free it; NULL when memory has run out. */
char *names_claim(const char *module);
/* Makes a folder and those above it. Returns whether it is there. */
bool names_make_folder(const char *path);

#endif /* TREMULA_TF_NAMES_H_ */
