# onnx_memplan_embed_codegen(TARGET): adds a source file to TARGET that holds the text of every
# header of codegen/, so that the tool finds it wherever it is installed.

function(onnx_memplan_embed_codegen target)
  set(root ${PROJECT_SOURCE_DIR}/codegen)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${root} ${root}/*/*.h)
  list(SORT headers)
  list(TRANSFORM headers PREPEND ${root}/ OUTPUT_VARIABLE paths)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/codegen_headers.cc)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DROOT=${root} "-DHEADERS=${headers}" -DOUTPUT=${output}
            -P ${PROJECT_SOURCE_DIR}/cmake/EmbedCodegenScript.cmake
    DEPENDS ${paths} ${PROJECT_SOURCE_DIR}/cmake/EmbedCodegenScript.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
