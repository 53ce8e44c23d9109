import os
import re

from conan import ConanFile
from conan.tools.files import copy, load
from conan.tools.layout import basic_layout


class Headwise(ConanFile):
    name = "headwise"
    description = "Attention scores written twice, and the harness that says which to believe"
    license = "MIT"
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    requires = "eigen/[>=3.4]"
    no_copy_source = True

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "../../../include/headwise/version.hpp"))
        self.version = ".".join(re.findall(r"#define HEADWISE_VERSION_\w+ (\d+)", header))

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "../../..")
        for pattern in ("CMakeLists.txt", "LICENSE", "include/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def layout(self):
        basic_layout(self)

    def package(self):
        copy(self, "include/*", self.source_folder, self.package_folder)
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_id(self):
        self.info.clear()

    def package_info(self):
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        self.cpp_info.set_property("cmake_file_name", "headwise")
        self.cpp_info.components["harness"].set_property("cmake_target_name", "headwise::harness")
        self.cpp_info.components["headwise"].set_property("cmake_target_name", "headwise::headwise")
        self.cpp_info.components["headwise"].requires = ["harness", "eigen::eigen"]
        if self.settings.get_safe("os") in ("Linux", "FreeBSD"):
            self.cpp_info.components["harness"].system_libs = ["pthread"]
