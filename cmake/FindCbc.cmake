# CBC (COIN-OR) ships a pkg-config file and no CMake package. Defines Cbc::Cbc.
find_package(PkgConfig REQUIRED)
pkg_check_modules(CBC REQUIRED IMPORTED_TARGET cbc)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Cbc REQUIRED_VARS CBC_LIBRARIES VERSION_VAR CBC_VERSION)
if(NOT TARGET Cbc::Cbc)
  add_library(Cbc::Cbc ALIAS PkgConfig::CBC)
endif()
