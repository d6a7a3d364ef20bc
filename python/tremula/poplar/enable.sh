# Source this: `popc`, the C++ headers and the libraries to link to are found from then on.
#   source "$(tremula poplar --prefix)/enable.sh"
# It is for bash, zsh and other shells that set BASH_SOURCE or %x.
if [ -n "${BASH_SOURCE:-}" ]; then
  tremula_poplar=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
elif [ -n "${ZSH_VERSION:-}" ]; then
  tremula_poplar=$(cd "$(dirname "$(eval 'print -r -- "${(%):-%x}"')")" && pwd)
else
  echo "enable.sh: source it in bash or zsh, or use: eval \"\$(tremula poplar --env)\"" >&2
  return 1
fi
tremula_includes=$tremula_poplar/include
tremula_libraries=$tremula_poplar/lib
# In a tree of sources the C headers are not beside the C++ ones, and the libraries are in the build.
[ -d "$tremula_includes/tremula" ] ||
  tremula_includes=$tremula_includes:$(cd "$tremula_poplar/../../../include" && pwd)
tremula_builds=$(cd "$tremula_poplar/../../.." && pwd)/build
for tremula_build in "${TREMULA_LIBRARY_DIR:-}" "$tremula_builds"/{release,wheel}/lib; do
  if [ ! -e "$tremula_libraries/libpoplar.a" ] && [ -e "$tremula_build/poplar/libpoplar.a" ]; then
    tremula_libraries=$tremula_build/poplar
    export TREMULA_LIBRARY_DIR=$tremula_build # plain programs look there
  fi
done
export POPLAR_SDK_ENABLED=$tremula_poplar
export PATH=$tremula_poplar/bin${PATH:+:$PATH}
export CPLUS_INCLUDE_PATH=$tremula_includes${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}
export LIBRARY_PATH=$tremula_libraries${LIBRARY_PATH:+:$LIBRARY_PATH}
export CMAKE_PREFIX_PATH=$tremula_poplar${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
unset tremula_poplar tremula_includes tremula_libraries tremula_builds tremula_build
