// What docs/generated-code.md promises, on whole models, with the tool as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "onnx_memplan/emit.h"
#include "testing/commands.h"
#include "testing/stack_bound.h"

namespace onnx_memplan::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kStrictFlags =
    "-std=c++17 -O2 -Wall -Wextra -Wconversion -Wshadow -fno-exceptions -fno-rtti -Werror";

struct Model {
  std::string name;
  bool in_corpus;  // of ONNX_MEMPLAN_SHARED_DIR; else of models/

  friend void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }
};

class GeneratedCodeTest : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    const auto [name, in_corpus] = GetParam();
    data_ = in_corpus ? ONNX_MEMPLAN_SHARED_DIR "/corpus/models/" + name
                      : ONNX_MEMPLAN_SOURCE_DIR "/models/" + name;
    if (!std::filesystem::exists(data_)) GTEST_SKIP() << data_ << " is not there";
  }

  // Generates FOLDER/net.cpp.
  void Generate(const std::string& options, const TemporaryFolder& folder) const {
    const CommandResult result = RunCommand(
        ONNX_MEMPLAN_CLI " '" + data_ + "/model.onnx' --emit net.cpp -q " + options, folder);
    ASSERT_EQ(result.exit_status, 0) << result.output;
    EXPECT_EQ(result.output, "");
  }

  std::string data_;
};

TEST_P(GeneratedCodeTest, CompilesWithoutWarningsEverywhereAndLinksIntoC) {
  const TemporaryFolder folder;
  ASSERT_NO_FATAL_FAILURE(Generate("--weights incbin --io arena", folder));
  for (const std::string compiler :
       {"g++", "clang++", "arm-none-eabi-g++ -mthumb -mcpu=cortex-m7"}) {
    if (!HasProgram(compiler.substr(0, compiler.find(' ')))) continue;
    const CommandResult built =
        RunCommand(compiler + " " + kStrictFlags + " -c net.cpp -o net.o", folder);
    EXPECT_EQ(built.exit_status, 0) << compiler << "\n" << built.output;
    EXPECT_EQ(built.output, "") << compiler;
    const CommandResult header = RunCommand("nm -C net.o", folder);
    EXPECT_THAT(header.output, Not(HasSubstr(" operator new"))) << compiler;
  }
  folder.Write("main.c", "#include \"net.h\"\nint main(void) { return net_run(); }\n");
  const CommandResult linked = RunCommand(
      "g++ -c net.cpp && gcc -std=c11 -Wall -Wextra -Werror -c main.c && "
      "g++ main.o net.o -o main && ./main",
      folder);
  EXPECT_EQ(linked.exit_status, 0) << linked.output;
}

TEST_P(GeneratedCodeTest, TwoRunsGiveTheSameBytes) {
  const TemporaryFolder folders[2];
  for (const TemporaryFolder& folder : folders) {
    ASSERT_NO_FATAL_FAILURE(Generate("--weights binary", folder));
  }
  for (const char* name : {"net.cpp", "net.h", "net_weights.bin"}) {
    EXPECT_FALSE(folders[0].Read(name).empty());
    EXPECT_TRUE(folders[0].Read(name) == folders[1].Read(name)) << name;
    EXPECT_THAT(folders[0].Read(name), Not(HasSubstr(folders[0].path().string())));
    EXPECT_THAT(folders[0].Read(name), Not(HasSubstr(data_)));
  }
}

TEST_P(GeneratedCodeTest, TheSelfTestPassesWithEveryFormOfWeights) {
  for (const std::string form : {"inline", "incbin", "binary"}) {
    const TemporaryFolder folder;
    ASSERT_NO_FATAL_FAILURE(
        Generate("--arena caller --weights " + form + " --self-test '" + data_ + "'", folder));
    const CommandResult ran =
        RunCommand("g++ -O2 net.cpp net_selftest.cpp -o net && ./net", folder);
    EXPECT_EQ(ran.exit_status, 0) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("passed"));
  }
}

TEST_P(GeneratedCodeTest, ThreadsRaceForNothing) {
  const TemporaryFolder folder;
  ASSERT_NO_FATAL_FAILURE(Generate("--threads 3 --self-test '" + data_ + "'", folder));
  for (const std::string flags : {"-O2", "-O1 -g -fsanitize=thread"}) {
    const CommandResult built =
        RunCommand("g++ -std=c++17 -Wall -Wextra -Wconversion -Wshadow -Werror " + flags +
                       " net.cpp net_threads.cpp net_selftest.cpp -pthread -o net",
                   folder);
    ASSERT_EQ(built.exit_status, 0) << built.output;
    // ThreadSanitizer has no place in the random layout of newer kernels.
    const CommandResult ran = RunCommand("setarch -R ./net || ./net", folder);
    EXPECT_EQ(ran.exit_status, 0) << ran.output;
    EXPECT_THAT(ran.output, HasSubstr("passed"));
    EXPECT_THAT(ran.output, Not(HasSubstr("data race")));
  }
}

TEST_P(GeneratedCodeTest, TheCallerMaySharePartsOut) {
  const TemporaryFolder folder;
  ASSERT_NO_FATAL_FAILURE(Generate("--threads 4 --self-test '" + data_ + "'", folder));
  folder.Write("parallel.c",
               "#include \"net.h\"\n"
               "void net_parallel(int32_t parts, void (*part)(void* context, int32_t index), "
               "void* context) {\n"
               "  while (parts > 0) part(context, --parts);\n"
               "}\n");
  const CommandResult ran = RunCommand(
      "gcc -std=c11 -Wall -Wextra -Werror -c parallel.c && "
      "g++ -O1 net.cpp net_selftest.cpp parallel.o -o net && ./net",
      folder);
  EXPECT_EQ(ran.exit_status, 0) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("passed"));
}

TEST_P(GeneratedCodeTest, TheStackStaysWithinTheReportedBound) {
  for (const std::string target : {"generic", "x86-64-v3", "x86-64-v4"}) {
    const TemporaryFolder folder;
    ASSERT_NO_FATAL_FAILURE(Generate("--weights binary --target " + target, folder));
    const std::string machine = target == "generic" ? "" : " -march=" + target;
    for (const std::string level : {"-O1", "-O2"}) {
      const CommandResult built = RunCommand(
          "g++ -std=c++17 " + level + machine + " -fcallgraph-info=su -c net.cpp", folder);
      ASSERT_EQ(built.exit_status, 0) << built.output;
      const absl::StatusOr<int64_t> bound = StackBound(folder.Read("net.ci"), "net_run");
      ASSERT_TRUE(bound.ok()) << bound.status();
      EXPECT_LE(*bound, StackBoundBytes(target == "x86-64-v4" ? 16 : 8)) << target << level;
    }
  }
}

std::vector<Model> Models() {
  std::vector<Model> models;
  for (const char* name : {"mlp", "lenet", "ds_cnn", "resnet8", "tiny_transformer"}) {
    models.push_back({name, false});
  }
  for (const char* name : {"autoencoder1d", "cct_2_32_op20", "gpt_tiny", "micro_kws_fp32",
                           "mlperf_vww_fp32", "resnet8_cifar", "wavenet_tiny"}) {
    models.push_back({name, true});
  }
  return models;
}

INSTANTIATE_TEST_SUITE_P(Models, GeneratedCodeTest, ::testing::ValuesIn(Models()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace onnx_memplan::testing
