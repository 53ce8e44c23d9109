// Writes the files that the tests of profile_scores read, into the folder given: good ones and bad ones. Given two
// files, says whether the tensors in them are close.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>

#include <headwise/harness/agreement.hpp>
#include <headwise/npy.hpp>

int main(int argc, char** argv) {
    if (argc == 3) {
        const auto actual = headwise::load_npy<float>(argv[1]), expected = headwise::load_npy<float>(argv[2]);
        const headwise::close_report report(actual, expected, {.rtol = 0, .atol = 1e-5});
        std::cout << report;
        return report ? 0 : 1;
    }
    const std::filesystem::path folder = argv[1];
    std::filesystem::create_directories(folder);
    auto q = headwise::randn<float>({2, 3, 8, 16}, 1);
    headwise::save_npy(folder / "q.npy", q);
    headwise::save_npy(folder / "k.npy", headwise::randn<float>({2, 3, 5, 16}, 2));
    headwise::save_npy(folder / "fewer_heads.npy", headwise::randn<float>({2, 2, 5, 16}, 2));
    headwise::save_npy(folder / "double.npy", headwise::randn<double>({2, 3, 8, 16}, 1));
    q(0, 0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
    headwise::save_npy(folder / "nan.npy", q);

    std::filesystem::copy_file(folder / "q.npy", folder / "truncated.npy");
    std::filesystem::resize_file(folder / "truncated.npy", std::filesystem::file_size(folder / "q.npy") / 2);
    std::ofstream(folder / "text.npy") << "not a tensor\n";
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1), }";
    header.resize(117, ' ');
    std::ofstream(folder / "rank5.npy", std::ios::binary)
        << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size() + 1) << '\0' << header << '\n' << "\0\0\0\0";
}
