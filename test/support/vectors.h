/* Records that a test vector of the contract was proved. Call it AFTER the assertions on that row passed:
 *     CC_VECTOR("02-21.1.3");
 * appends "02-21.1.3 <test file>:<function>" to $CC_VECTORS_LOG (default build/vectors.log). */
#ifndef CC_TEST_VECTORS_H
#define CC_TEST_VECTORS_H

void cc_vector_proved(const char *id, const char *file, const char *function);
#define CC_VECTOR(id) cc_vector_proved((id), __FILE__, __func__)

#endif
