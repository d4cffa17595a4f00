/* Proof that each rule of the simulator can fail. */
#ifndef SIM_SELF_TEST_H
#define SIM_SELF_TEST_H

/* In worlds that go well something forbidden is done by hand, once for each rule; the rule must see it. Prints a line a
 * rule and "self-test: N passed, M failed"; gives M. */
int sim_self_test(void);

#endif
