# Compiles the machine descriptions of data/targets into the library, which then has the presets
# wherever it is installed. cmake writes a C file of them when it configures, which it does again
# when a description changes.
function(tremula_embed_targets output)
  set(text "/* Generated from data/targets by cmake/embed.cmake. */\n#include \"ipu/target/target.h\"\n\n")
  set(rows "")
  file(GLOB paths CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/data/targets/*.json)
  foreach(path ${paths})
    get_filename_component(name ${path} NAME_WE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(READ ${path} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "((0x[0-9a-f][0-9a-f],){16})" "\\1\n" bytes "${bytes}")
    string(APPEND text "static const char ${name}_text[] = {\n${bytes}0};\n\n")
    string(APPEND rows "    {\"${name}\", ${name}_text, sizeof ${name}_text - 1},\n")
  endforeach()
  list(LENGTH paths count)
  string(APPEND text "const trm_target_text trm_target_texts[] = {\n${rows}};\n"
    "const size_t trm_target_num_texts = ${count};\n")
  file(CONFIGURE OUTPUT ${output} CONTENT "${text}" @ONLY)
endfunction()
