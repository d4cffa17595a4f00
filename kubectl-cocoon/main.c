#include "app.h"

int main(int argc, char **argv) {
    return kc_main(argc, argv);
}
