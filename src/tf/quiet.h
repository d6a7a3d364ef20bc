/* Less of what TensorFlow logs. */
#ifndef TREMULA_TF_QUIET_H_
#define TREMULA_TF_QUIET_H_

/* Drops the lines that TensorFlow logs of our device in every session. */
void quiet_install(void);

#endif /* TREMULA_TF_QUIET_H_ */
