#!/bin/sh
# Compiles functions: `build.sh fnd-build.json INTERPRETER`. Leaves `program` and `.fnd-packages` in the tree.
set -eu
code=$(dirname "$(readlink -f "$1")")
here=$(dirname "$(readlink -f "$0")")
tree=$STATE_DIRECTORY/$(basename "$(dirname "$code")")
work=$STATE_DIRECTORY/work
rm -rf "${STATE_DIRECTORY:?}"/*
mkdir -p "$tree" "$work"
cp "$code"/*.cs "$work"
# A script has a `Main` of its own; a handler gets the shim's.
if grep -q '"mode": *"handler"' "$1"; then
    cp "$here/Shim.cs" "$work/FndShim.cs"
    cp "$here/Json.cs" "$work/FndJson.cs"
fi
cd "$work"
if [ "$(basename "$2")" = mono ]; then
    mcs -nologo -warn:0 -debug -out:"$tree/program.exe" ./*.cs >output 2>&1 && built=yes || built=no
    # shellcheck disable=SC2016  # the program expands it
    printf '#!/bin/sh\nexec %s --debug "${0%%/*}/program.exe" "$@"\n' "$2" >"$tree/program"
    chmod 755 "$tree/program"
else
    cat >program.csproj <<'END'
<Project Sdk="Microsoft.NET.Sdk">
  <PropertyGroup>
    <OutputType>Exe</OutputType>
    <TargetFramework>net8.0</TargetFramework>
    <AssemblyName>program</AssemblyName>
    <InvariantGlobalization>true</InvariantGlobalization>
  </PropertyGroup>
</Project>
END
    "$2" publish --nologo --verbosity quiet --configuration Release --output "$tree" >output 2>&1 && built=yes || built=no
fi
if [ "$built" = no ]; then
    cat output
    # The last line of standard error is the reason: `hello.cs(5,2): error CS0103: ...`.
    sed -n "s|^$work/||; s|^\./||; / error /{s/ \[[^]]*\]\$//; p; q}" output >&2
    rm -rf "${STATE_DIRECTORY:?}"/*
    exit 65
fi
: >"$tree/.fnd-packages"
