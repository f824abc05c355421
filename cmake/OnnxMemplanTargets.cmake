# Helpers that give every target of the project the same warnings and sanitizers.

function(onnx_memplan_configure target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wconversion -Wshadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 warns falsely in std::string (GCC bug 105329).
    target_compile_options(${target} PRIVATE -Wno-restrict)
  endif()
  if(ONNX_MEMPLAN_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(ONNX_MEMPLAN_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${ONNX_MEMPLAN_SANITIZE}
                                             -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${ONNX_MEMPLAN_SANITIZE})
  endif()
  if(ONNX_MEMPLAN_BUILD_FUZZERS)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()

# onnx_memplan_layer(NAME LIBS...): one folder of src/ as one static library. LIBS are the only
# layers that the folder may include; they are the layering of the project.
function(onnx_memplan_layer name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(target onnx_memplan_${name})
  add_library(${target} STATIC ${sources})
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/codegen)
  target_link_libraries(${target} PUBLIC absl::status absl::statusor ${ARGN})
  onnx_memplan_configure(${target})
  install(TARGETS ${target} EXPORT onnx_memplan_targets)
endfunction()
