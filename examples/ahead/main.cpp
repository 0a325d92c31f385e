// The same as a class that owns its memory; a failed call is an exception.
#include "classify.h"

#include <array>
#include <cstdio>
#include <fstream>
#include <span>
#include <stdexcept>
#include <vector>

class Classifier {
 public:
  explicit Classifier(const char *path) : weights_(CLASSIFY_WEIGHTS_BYTES) {
    std::ifstream file(path, std::ios::binary);
    if (!file.read(weights_.data(), static_cast<std::streamsize>(weights_.size())))
      throw std::runtime_error("the weights can't be read");
  }

  std::array<float, 10> operator()(std::span<const float, 64> x) {
    std::array<float, 10> share{};
    if (auto status = classify(x.data(), share.data(), weights_.data(), scratch_.data()))
      throw std::runtime_error(classify_error(status));
    return share;
  }

 private:
  std::vector<char> weights_, scratch_ = std::vector<char>(CLASSIFY_SCRATCH_BYTES);
};

int main() {
  std::array<float, 64> x{};
  for (int i = 0; i < 64; i++) x[static_cast<std::size_t>(i)] = static_cast<float>(i) / 64;
  const char *end = "";
  for (float share : Classifier("classify.weights.bin")(x)) {
    std::printf("%s%.6f", end, static_cast<double>(share));
    end = " ";
  }
  std::puts("");
}
