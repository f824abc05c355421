// The command line as a user meets it: exit codes, messages, files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/commands.h"

namespace onnx_memplan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

CommandResult RunTool(const std::string& arguments, const TemporaryFolder& folder) {
  return RunCommand(std::string(ONNX_MEMPLAN_CLI) + " " + arguments, folder);
}

std::string Model(const std::string& name) {
  return std::string(ONNX_MEMPLAN_SOURCE_DIR) + "/models/" + name + "/model.onnx";
}

TEST(Cli, HelpTeachesAndSucceeds) {
  TemporaryFolder folder;
  const CommandResult result = RunTool("--help", folder);
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("--emit"), HasSubstr("--bind"), HasSubstr("Exit status")));
  EXPECT_EQ(RunTool("--version", folder).exit_status, 0);
}

TEST(Cli, WrongUsageIsTwo) {
  TemporaryFolder folder;
  EXPECT_EQ(RunTool("", folder).exit_status, 2);
  EXPECT_EQ(RunTool("--no-such-option", folder).exit_status, 2);
  EXPECT_EQ(RunTool("plan", folder).exit_status, 2);
  EXPECT_EQ(RunTool(Model("mlp") + " --weights nowhere", folder).exit_status, 2);
}

TEST(Cli, WhatCannotBeServedIsOneWithOneMessageAndNoFile) {
  TemporaryFolder folder;
  folder.Write("garbage.onnx", "this is not a model");
  for (const std::string& arguments :
       {std::string("missing.onnx --emit a.cpp"), std::string("garbage.onnx --emit a.cpp"),
        Model("mlp") + " --target z80 --emit a.cpp", Model("mlp") + " --emit a.txt",
        Model("mlp") + " --emit a.cpp --report r.pdf",
        Model("mlp") + " --emit a.cpp --arena-limit 16"}) {
    const CommandResult result = RunTool(arguments, folder);
    EXPECT_EQ(result.exit_status, 1) << arguments << result.output;
    EXPECT_THAT(result.output, HasSubstr("onnx-memplan: ")) << arguments;
    EXPECT_EQ(RunCommand("ls", folder).output, "garbage.onnx\n") << arguments;
  }
}

TEST(Cli, WritesEveryFormOfReport) {
  TemporaryFolder folder;
  const CommandResult result = RunTool(
      Model("lenet") + " --report r.json --report r.txt --report r.svg --report r.html", folder);
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(folder.Read("r.json"), HasSubstr("\"format_version\": 1"));
  EXPECT_THAT(folder.Read("r.txt"), HasSubstr("proven minimal"));
  EXPECT_THAT(folder.Read("r.svg"), HasSubstr("<svg"));
  EXPECT_THAT(folder.Read("r.html"), HasSubstr("<!DOCTYPE html>"));
}

TEST(Cli, QuietPrintsNothing) {
  TemporaryFolder folder;
  EXPECT_EQ(RunTool(Model("mlp") + " --emit a.cpp -q", folder).output, "");
  EXPECT_THAT(RunCommand("ls", folder).output, HasSubstr("a.cpp"));
}

TEST(Cli, VerifyComparesWithReferenceData) {
  TemporaryFolder folder;
  const std::string data = std::string(ONNX_MEMPLAN_SOURCE_DIR) + "/models/lenet";
  EXPECT_EQ(RunTool("verify " + Model("lenet") + " --data " + data, folder).exit_status, 0);
  const CommandResult wrong =
      RunTool("verify " + Model("lenet") + " --data " + data + " --tolerance 0", folder);
  EXPECT_EQ(wrong.exit_status, 1);
  EXPECT_THAT(wrong.output, HasSubstr("DIFFERS"));
}

TEST(Cli, InspectListsOperators) {
  TemporaryFolder folder;
  const CommandResult result = RunTool("inspect " + Model("resnet8"), folder);
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_THAT(result.output, AllOf(HasSubstr("BatchNormalization"), HasSubstr("opset")));
}

TEST(Cli, PlansBuffersFromCsv) {
  TemporaryFolder folder;
  folder.Write("b.csv", "id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,2,4,4\n");
  const CommandResult result = RunTool("plan b.csv --output placed.csv", folder);
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("arena 8 bytes"));
  EXPECT_THAT(folder.Read("placed.csv"), HasSubstr("offset"));
  EXPECT_EQ(RunTool("plan b.csv --capacity 4", folder).exit_status, 1);
}

TEST(Cli, ListsPasses) {
  TemporaryFolder folder;
  EXPECT_EQ(RunTool("--list-passes", folder).exit_status, 0);
  EXPECT_EQ(RunTool(Model("mlp") + " --no-pass no-such-pass", folder).exit_status, 1);
}

}  // namespace
}  // namespace onnx_memplan::testing
