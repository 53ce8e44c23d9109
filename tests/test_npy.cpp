#include <headwise/npy.hpp>

#include <bit>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "files.hpp"

using namespace headwise;
using namespace std::string_literals;
using test::npy, test::same_bits;

namespace {

template <class Scalar>
tensor<Scalar> read(const std::string& bytes) {
    std::istringstream in(bytes);
    return detail::read_npy<Scalar>(in, "x.npy");
}

template <class Scalar>
std::vector<Scalar> values(const tensor<Scalar>& t) {
    return {t.data(), t.data() + t.size()};
}

const std::string little_f4 =
    "\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x20\x41\xcd\xcc\xcc\x3d\x00\x00\x80\x7f\x00\x00\x00\x80"s;
const std::string big_f4 =
    "\x3f\x80\x00\x00\xc0\x00\x00\x00\x41\x20\x00\x00\x3d\xcc\xcc\xcd\x7f\x80\x00\x00\x80\x00\x00\x00"s;
const std::vector<float> six = {1, -2, 10, 0.1f, std::numeric_limits<float>::infinity(), -0.f};
const std::string native_f4 = std::endian::native == std::endian::little ? little_f4 : big_f4;

const std::string little_f2 = "\x00\x3c\x00\xc0\xff\x7b\x01\x00\x00\x7c\x00\x80"s;
const std::string big_f2 = "\x3c\x00\xc0\x00\x7b\xff\x00\x01\x7c\x00\x80\x00"s;

const std::string little_f8 = "\x00\x00\x00\x00\x00\x00\xf0\x3f\x9a\x99\x99\x99\x99\x99\xb9\xbf"s;
const std::string big_f8 = "\x3f\xf0\x00\x00\x00\x00\x00\x00\xbf\xb9\x99\x99\x99\x99\x99\x9a"s;

}  // namespace

TEST_CASE("float32 and float64 in every byte order and format version") {
    for (const int version : {1, 2, 3}) {
        CAPTURE(version);
        const auto file = [version](const std::string& descr, const std::string& shape, const std::string& bytes) {
            return npy(version, "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }   \n",
                       bytes);
        };
        const shape4 shape = {1, 1, 2, 3};
        for (const auto& t :
             {read<float>(file("<f4", "(2, 3)", little_f4)), read<float>(file(">f4", "(2, 3)", big_f4)),
              read<float>(file("=f4", "(2, 3)", native_f4)), read<float>(file("|f4", "(2, 3)", native_f4))}) {
            CHECK(t.shape() == shape);
            CHECK(values(t) == six);
            CHECK(std::signbit(t(0, 0, 1, 2)));
        }
        CHECK(values(read<double>(file("<f8", "(2,)", little_f8))) == std::vector<double>{1, -0.1});
        CHECK(values(read<double>(file(">f8", "(2,)", big_f8))) == std::vector<double>{1, -0.1});
    }
}

TEST_CASE("float16, in either byte order, is Eigen::half to the bit; bfloat16 is refused by name") {
    const auto file = [](const std::string& descr, const std::string& bytes) {
        return npy(1, "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (2, 3), }\n", bytes);
    };
    for (const auto& t : {read<Eigen::half>(file("<f2", little_f2)), read<Eigen::half>(file(">f2", big_f2))}) {
        CHECK(t.shape() == shape4{1, 1, 2, 3});
        std::vector<float> wide;
        for (const Eigen::half x : values(t)) wide.push_back(static_cast<float>(x));
        CHECK(wide == std::vector<float>{1, -2, 65504, 0x1p-24f, std::numeric_limits<float>::infinity(), -0.f});
        CHECK(std::signbit(wide[5]));
    }
    CHECK_THROWS_WITH_AS((void)read<float>(file("<f2", little_f2)),
                         "x.npy: the file holds float16; load_npy<float> reads float32", std::invalid_argument);
    CHECK_THROWS_WITH_AS((void)read<Eigen::half>(file("<f4", little_f4)),
                         "x.npy: the file holds float32; load_npy<Eigen::half> reads float16", std::invalid_argument);
    CHECK_THROWS_WITH_AS((void)read<Eigen::half>(file("|V2", little_f2)),
                         "x.npy: the file holds pairs of raw bytes, as which NumPy saves bfloat16; "
                         "load_npy<Eigen::half> reads float16",
                         std::invalid_argument);
    static_assert(npy_scalar<Eigen::half> && !npy_scalar<Eigen::bfloat16>);
}

TEST_CASE("missing leading dimensions are 1; rank 0 is one value") {
    const auto shape_of = [](const std::string& shape, std::size_t count) {
        return read<float>(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }\n",
                               std::string(4 * count, '\0')))
            .shape();
    };
    CHECK(shape_of("()", 1) == shape4{1, 1, 1, 1});
    CHECK(shape_of("(6,)", 6) == shape4{1, 1, 1, 6});
    CHECK(shape_of("(2, 3)", 6) == shape4{1, 1, 2, 3});
    CHECK(shape_of("(2, 3, 4)", 24) == shape4{1, 2, 3, 4});
    CHECK(shape_of("(2, 3, 4, 5)", 120) == shape4{2, 3, 4, 5});
    CHECK(shape_of("(2, 0, 4, 5)", 0) == shape4{2, 0, 4, 5});
    CHECK(shape_of("(9223372036854775807, 9223372036854775807, 0)", 0)[3] == 0);
}

TEST_CASE("Fortran order: the first axis varies fastest") {
    const auto fortran = [](const std::string& descr, const std::string& shape, const std::string& bytes) {
        return npy(1, "{'descr': '" + descr + "', 'fortran_order': True, 'shape': " + shape + ", }\n", bytes);
    };
    // The columns of [[1, 10, inf], [-2, 0.1, -0]], one after the other.
    const std::vector<float> rows = {six[0], six[2], six[4], six[1], six[3], six[5]};
    CHECK(values(read<float>(fortran("<f4", "(2, 3)", little_f4))) == rows);
    CHECK(values(read<float>(fortran(">f4", "(2, 3)", big_f4))) == rows);
    CHECK(values(read<float>(fortran("<f4", "(6,)", little_f4))) == six);
    CHECK(read<float>(fortran("<f4", "(2, 0)", "")).shape() == shape4{1, 1, 2, 0});

    const auto expected = randn<float>({2, 3, 4, 5}, 1);
    std::string bytes;
    for (std::ptrdiff_t d = 0; d < 5; ++d)
        for (std::ptrdiff_t l = 0; l < 4; ++l)
            for (std::ptrdiff_t h = 0; h < 3; ++h)
                for (std::ptrdiff_t b = 0; b < 2; ++b)
                    bytes.append(reinterpret_cast<const char*>(&expected(b, h, l, d)), sizeof(float));
    CHECK(same_bits(read<float>(fortran("=f4", "(2, 3, 4, 5)", bytes)), expected));
}

TEST_CASE("the dict may be written in any way that Python reads") {
    for (const std::string& dict : {
             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"s,
             "{'descr':'<f4','fortran_order':False,'shape':(2,3)}"s,
             "  { \"shape\" : ( 2 , 3 , ) ,\n\t\"fortran_order\" : False , \"descr\" : \"<f4\" }  \n\n"s,
             "{'shape': (2L, 3L), 'descr': '<f4', 'fortran_order': False}"s,
             "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }" + std::string(60000, ' ') + "\n",
         })
        CHECK(values(read<float>(npy(1, dict, little_f4))) == six);
}

TEST_CASE("NaN keeps its payload, in either byte order") {
    const std::string head = "f4', 'fortran_order': False, 'shape': (), }\n";
    const auto bits = [](const tensor<float>& t) { return std::bit_cast<std::uint32_t>(t(0, 0, 0, 0)); };
    CHECK(bits(read<float>(npy(1, "{'descr': '<" + head, "\x01\x02\xa0\x7f"))) == 0x7fa00201u);  // a signalling one
    CHECK(bits(read<float>(npy(1, "{'descr': '>" + head, "\x7f\xa0\x02\x01"))) == 0x7fa00201u);
}

TEST_CASE("what is refused: one sentence with the file and the rule") {
    struct fault {
        std::string bytes, message;
    };
    const auto header = [](const std::string& dict) { return npy(1, dict, little_f4); };
    const auto descr = [&](const std::string& text) {
        return header("{'descr': " + text + ", 'fortran_order': False, 'shape': (2, 3), }\n");
    };
    const auto shape = [&](const std::string& text) {
        return header("{'descr': '<f4', 'fortran_order': False, 'shape': " + text + ", }\n");
    };
    const std::string good = shape("(2, 3)"), h = "npy header: ";
    const fault faults[] = {
        {"", "is not an npy file: it does not begin with \\x93NUMPY and a version"},
        {"PK\x03\x04 an archive", "is not an npy file: it does not begin with \\x93NUMPY and a version"},
        {"\x93NUMPX\x01", "is not an npy file: it does not begin with \\x93NUMPY and a version"},
        {"\x93NUMPY\x04\x00\x10\x00"s, "npy version 4.0; versions 1.0, 2.0 and 3.0 are read"},
        {"\x93NUMPY\x00\x00\x10\x00"s, "npy version 0.0; versions 1.0, 2.0 and 3.0 are read"},
        {"\x93NUMPY\x01\x01\x10\x00"s, "npy version 1.1; versions 1.0, 2.0 and 3.0 are read"},
        {"\x93NUMPY\x01\x00\x10"s, "the file ends inside the npy header"},
        {"\x93NUMPY\x02\x00\x10\x00\x00"s, "the file ends inside the npy header"},
        {"\x93NUMPY\x01\x00\xff\xff{}"s, "the npy header claims 65535 bytes, the file has 2 more"},
        {"\x93NUMPY\x02\x00\xff\xff\xff\xff{}"s, "the npy header claims 4294967295 bytes, the file has 2 more"},
        {npy(3, std::string(65536, ' '), ""), "the npy header claims 65536 bytes; one of at most 65535 is read"},

        {descr("'<f8'"), "the file holds float64; load_npy<float> reads float32"},
        {descr("'>f2'"), "the file holds float16; load_npy<float> reads float32"},
        {descr("'<i4'"), "the file holds int32; load_npy<float> reads float32"},
        {descr("'|u1'"), "the file holds uint8; load_npy<float> reads float32"},
        {descr("'<c8'"), "the file holds complex64; load_npy<float> reads float32"},
        {descr("'|b1'"), "the file holds bool; load_npy<float> reads float32"},
        {descr("'|O'"), "the file holds pickled Python objects; load_npy<float> reads float32"},
        {descr("'<U7'"), "the file holds strings; load_npy<float> reads float32"},
        {descr("'<V2'"),
         "the file holds pairs of raw bytes, as which NumPy saves bfloat16; load_npy<float> reads float32"},
        {descr("'<f'"), "the file holds values of dtype '<f'; load_npy<float> reads float32"},
        {descr("'<f4x'"), "the file holds values of dtype '<f4x'; load_npy<float> reads float32"},
        {descr("'<f99999999999'"), "the file holds values of dtype '<f99999999999'; load_npy<float> reads float32"},
        {descr("'f4'"), h + "descr 'f4' must begin with the byte order <, >, = or |"},
        {descr("''"), h + "descr '' must begin with the byte order <, >, = or |"},
        {descr("[('x', '<f4')]"), h + "structured dtypes are not read: '[('x', '<f4')], 'fortran_order': False, ...'"},

        {shape("(2, -3)"), h + "a negative extent in shape: '-3), }?'"},
        {shape("(2, 9223372036854775808)"), h + "an extent overflows ptrdiff_t: '9223372036854775808), }?'"},
        {shape("(4294967296, 4294967296)"),
         "the size in bytes of shape (1, 1, 4294967296, 4294967296) overflows ptrdiff_t"},
        {shape("(1, 2, 3, 4, 5)"), h + "shape has 5 dimensions, at most 4 are read"},
        {shape("6"), h + "expected '(' before '6, }?'"},
        {shape("(6)"), h + "shape must be a tuple: (3,), not (3)"},
        {shape("(2 3)"), h + "expected ')' before '3), }?'"},
        {shape("(2, 3.0)"), h + "expected ')' before '.0), }?'"},
        {shape("(2, x)"), h + "shape must hold integers, not 'x), }?'"},
        {shape("(, 2)"), h + "shape must hold integers, not ', 2), }?'"},
        {shape("(+2, 3)"), h + "shape must hold integers, not '+2, 3), }?'"},

        {header(""), h + "expected '{' before its end"},
        {header("{'descr': '<f4'"), h + "expected '}' before its end"},
        {header("{'descr': '<f4', "), h + "expected ''' before its end"},
        {header("{'descr': '<f4"), h + "a string does not end: '<f4'"},
        {header("{descr: '<f4'}"), h + "expected ''' before 'descr: '<f4'}'"},
        {header("{'descr' '<f4'}"), h + "expected ':' before ''<f4'}'"},
        {header("{}"), h + "the keys descr, fortran_order and shape must all be there"},
        {header("{'descr': '<f4', 'shape': (2, 3), }"),
         h + "the keys descr, fortran_order and shape must all be there"},
        {header("{'descr': '<f4', 'descr': '<f4', }"), h + "the key 'descr' is unknown or given twice"},
        {header("{'shape': (2, 3), 'shape': (2, 3), }"), h + "the key 'shape' is unknown or given twice"},
        {header("{'fortran_order': True, 'fortran_order': True, }"),
         h + "the key 'fortran_order' is unknown or given twice"},
        {header("{'colour': 'red', }"), h + "the key 'colour' is unknown or given twice"},
        {header("{'descr': '<f4', 'fortran_order': 1, }"), h + "fortran_order must be True or False, not '1, }'"},
        {good.substr(0, 10) + '\x7f' + std::string(good.size() - 11, '\xff'),
         h + "expected '{' before '" + std::string(40, '?') + "...'"},
        {header("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } and more"),
         h + "text after the dict, 'and more'"},

        {good.substr(0, good.size() - 1),
         "shape (1, 1, 2, 3) of float32 needs 24 bytes after the header, the file has 23"},
        {good + '\0', "shape (1, 1, 2, 3) of float32 needs 24 bytes after the header, the file has 25"},
        {shape("(2, 0)"), "shape (1, 1, 2, 0) of float32 needs 0 bytes after the header, the file has 24"},
        {shape("(1000000, 1000000, 100000)"),
         "shape (1, 1000000, 1000000, 100000) of float32 needs 400000000000000000 bytes after the header, the file has "
         "24"},
    };
    for (const fault& f : faults) {
        const std::string message = "x.npy: " + f.message;
        CAPTURE(f.message);
        CHECK_THROWS_WITH_AS((void)read<float>(f.bytes), message.c_str(), std::invalid_argument);
    }
    CHECK_THROWS_WITH_AS((void)read<double>(good), "x.npy: the file holds float32; load_npy<double> reads float64",
                         std::invalid_argument);
}

TEST_CASE("a file cut anywhere is refused, and one with any byte changed is read or refused, never worse") {
    const std::string good = npy(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", little_f4);
    REQUIRE(values(read<float>(good)).size() == 6);
    for (std::size_t length = 0; length < good.size(); ++length)
        CHECK_THROWS_AS((void)read<float>(good.substr(0, length)), std::invalid_argument);
    for (std::size_t i = 0; i < good.size(); ++i)
        for (int byte = 0; byte < 256; ++byte) {
            std::string changed = good;
            changed[i] = static_cast<char>(byte);
            try {
                const tensor<float> t = read<float>(changed);
                CHECK(t.size() == 6);
            } catch (const std::invalid_argument& refusal) {
                CHECK(std::string(refusal.what()).starts_with("x.npy: "));
            }
        }
}
