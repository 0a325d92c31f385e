/* Prints the digit in each image of images.bin, 64 floats each. */
#include "digits.h"

#include <stdio.h>

static char weights[DIGITS_WEIGHTS_BYTES], scratch[DIGITS_SCRATCH_BYTES];

int main(void) {
  float image[64], share[10];
  FILE *file = fopen("digits.weights.bin", "rb"), *images = fopen("images.bin", "rb");
  if (!file || !images || fread(weights, 1, sizeof weights, file) != sizeof weights) return 2;
  while (fread(image, sizeof image, 1, images) == 1) {
    int32_t status = digits(image, share, weights, scratch);
    if (status) return fprintf(stderr, "%s\n", digits_error(status)), 1;
    int best = 0;
    for (int i = 1; i < 10; i++)
      if (share[i] > share[best]) best = i;
    printf("%d\n", best);
  }
  return 0;
}
