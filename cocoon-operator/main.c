#include "app.h"
#include "base/alloc.h"

int main(int argc, char **argv) {
    cc_alloc_set_up();
    return op_main(argc, argv);
}
