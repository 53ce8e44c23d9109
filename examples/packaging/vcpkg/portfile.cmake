# headers only: one build type is enough, and there is nothing for lib/
set(VCPKG_BUILD_TYPE release)
vcpkg_from_git(OUT_SOURCE_PATH SOURCE_PATH URL <where you cloned headwise from> REF <commit>)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS -DHEADWISE_EXAMPLES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH share/cmake/headwise)
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
