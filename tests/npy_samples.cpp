// Writes the files that the tests of profile_scores read, into the folder given: good ones and bad ones.
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <headwise/npy.hpp>

int main(int, char** argv) {
    const std::filesystem::path folder = argv[1];
    std::filesystem::create_directories(folder);
    auto q = headwise::randn<float>({2, 3, 8, 16}, 1);
    headwise::save_npy(folder / "q.npy", q);
    headwise::save_npy(folder / "k.npy", headwise::randn<float>({2, 3, 5, 16}, 2));
    headwise::save_npy(folder / "fewer_heads.npy", headwise::randn<float>({2, 2, 5, 16}, 2));
    headwise::save_npy(folder / "double.npy", headwise::randn<double>({2, 3, 8, 16}, 1));
    q(0, 0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
    headwise::save_npy(folder / "nan.npy", q);

    std::filesystem::copy_file(folder / "q.npy", folder / "truncated.npy", std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder / "truncated.npy", std::filesystem::file_size(folder / "q.npy") / 2);
    std::ofstream(folder / "text.npy") << "not a tensor\n";
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1), }";
    header.resize(117, ' ');
    std::ofstream(folder / "rank5.npy", std::ios::binary)
        << "\x93NUMPY" << '\1' << '\0' << static_cast<char>(header.size() + 1) << '\0' << header << '\n' << "\0\0\0\0";
}
