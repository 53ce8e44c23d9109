// The version, in one place: CMake reads these three lines.
#pragma once

#define HEADWISE_VERSION_MAJOR 0
#define HEADWISE_VERSION_MINOR 1
#define HEADWISE_VERSION_PATCH 0
