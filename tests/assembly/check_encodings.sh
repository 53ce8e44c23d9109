#!/bin/sh
# sh check_encodings.sh <program or object>...
# A program built without any -march may hold instructions beyond SSE2 only inside the functions of the target regions. Found
# in any other, a shared inline function for one, they would crash an older machine as soon as it is called. And a function
# that streams ends with a fence: no result on one thread shows that it is missing.
set -u
status=0
for program; do
    objdump -d --no-show-raw-insn "$program" | awk -v program="$(basename "$program")" '
    /^[0-9a-f]+ <.*>:$/ {
        symbol = $2
        gsub(/[<>:]/, "", symbol)
        region = symbol ~ /^_ZN(K)?8headwise6kernel(4avx2|6avx512|11avx512_bf16)/ || symbol ~ /^_ZN(K)?8headwise6detail(13roofline_avx2|15roofline_avx512)/
        functions++
        next
    }
    region && $2 ~ /^vmovntp[sd]$/ { streams = 1 }
    region && symbol ~ /[0-9](packed|weigh|logits)I/ { fences[symbol] += $2 == "sfence" }
    # VEX and EVEX: mnemonics with a v, those of mask registers, BMI; and SSE4, POPCNT, LZCNT, MOVBE. (tzcnt is bsf to an
    # older machine.)
    $2 ~ /^(v[a-z]|k(mov|and|or|xor|unpck|test|not|shift|add)|andn$|bextr|bls(i|r|msk)$|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|popcnt|lzcnt|movbe|crc32|p?blend|ptest|round[sp]|dpp|insertps|extractps|pmov[sz]x|pmulld|pm(ax|in)(sb|sd|uw|ud))/ {
        if (region) inside++
        else if (!(symbol in found)) {
            found[symbol] = 1
            printf "%s: %s is outside of every target region and has %s.\n", program, symbol, $2 > "/dev/stderr"
            faults++
        }
    }
    END {
        printf "%s: %d functions, %d instructions beyond SSE2, all in target regions: %s\n", program, functions, inside, faults ? "no" : "yes"
        for (symbol in fences)
            if (streams && fences[symbol] == 0) {
                printf "%s: %s has no sfence.\n", program, symbol > "/dev/stderr"
                faults++
            }
        if (inside == 0) print program ": no instruction of any target region; this is the wrong program." > "/dev/stderr"
        exit faults > 0 || inside == 0
    }' || status=1
done
exit $status
