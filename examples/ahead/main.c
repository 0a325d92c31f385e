/* Runs what make.py wrote: weights from a file, scratch from malloc. */
#include "classify.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
  float x[64], share[10];
  void *weights = malloc(CLASSIFY_WEIGHTS_BYTES), *scratch = malloc(CLASSIFY_SCRATCH_BYTES);
  FILE *file = fopen("classify.weights.bin", "rb");
  if (!file || !weights || !scratch) return 2;
  if (fread(weights, 1, CLASSIFY_WEIGHTS_BYTES, file) != CLASSIFY_WEIGHTS_BYTES) return 2;
  fclose(file);
  for (int i = 0; i < 64; i++) x[i] = (float)i / 64;
  int32_t status = classify(x, share, weights, scratch);
  if (status) return fprintf(stderr, "%s\n", classify_error(status)), 1;
  for (int i = 0; i < 10; i++) printf("%.6f%c", share[i], i < 9 ? ' ' : '\n');
  free(weights);
  free(scratch);
  return 0;
}
