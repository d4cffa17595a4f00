#include "app.h"

int main(int argc, char **argv) {
    return op_main(argc, argv);
}
