# Reads the assembly (x86-64, AT&T) that a compiler makes of kernels.cpp; prints a row of the table for each kernel, and a
# sentence on stderr for each fault. awk -v compiler=g++ -v level=-O2 -v expected=<kernels> -f hot_loops.awk kernels.s
#
#   tile        each innermost loop has a whole number of steps of rows * vectors multiply-adds (unrolled by four: 4 steps),
#               at most rows + vectors loads a step, and stores no vector: the accumulators are registers, and stay there
#   values_tile  the same
#   soften      the loop with the most multiply-adds, over a row's exponentials, moves nothing to or from the stack (looked at
#               where 32 registers hold its constants)
#   few_rows    each innermost loop has a whole number of blocks of rows * lanes multiply-adds and stores no vector
#   pack_lanes  each innermost loop stores a whole number of blocks of `lanes` vectors, none of them to the stack
#   all         a function that writes the upper halves of registers has a vzeroupper
#
# -v allowed="target kernel limit, ..." names what is known to spill: at most `limit` vectors moved to or from the stack.

function complain(sentence) {
    print compiler " " level ": " name ": " sentence > "/dev/stderr"
    faults++
}

# ---------------------------------------------------------------- which kernel: sets name, kernel, rows, vectors, lanes

function number_after(text,    at) {
    at = index(symbol, text)
    return at ? substr(symbol, at + length(text)) + 0 : 0
}

function recognise(    target, type, size, i, parts, words) {
    kernel = symbol ~ /[0-9]tileI/ ? "tile" : symbol ~ /values_tileI/ ? "values_tile" : symbol ~ /softenI/ ? "soften" \
           : symbol ~ /few_rowsI/ ? "few_rows" : symbol ~ /pack_lanesI/ ? "pack_lanes" : ""
    if (kernel == "" || match(symbol, /(8baseline|4avx2|6avx512|1avx512_bf16)/) == 0) return 0
    target = substr(symbol, RSTART + 1, RLENGTH - 1)
    type = symbol ~ /bf16_pairs/ ? "pairs" : symbol ~ /f32x|bytes16If/ ? "float" : "double"
    lanes = target == "baseline" ? (type == "float" ? 4 : 2) : type == "pairs" ? 16 : number_after("f32x") + number_after("f64x")
    rows = number_after("ELi")
    vectors = 1
    if (kernel ~ /tile$/ && match(symbol, /ELi[0-9]+ELi/)) vectors = substr(symbol, RSTART + RLENGTH) + 0
    size = kernel ~ /tile$/ ? " " rows "x" vectors : kernel == "few_rows" ? " " rows : ""
    name = target " " type " " kernel size
    most_spills = 0
    for (i = split(allowed, parts, /, */); i > 0; i--) {
        split(parts[i], words, " ")
        if (words[1] == target && words[2] == kernel) most_spills = words[3] + 0
    }
    return 1
}

# ---------------------------------------------------------------- its loops: sets body[head, instruction] and is_head[head]

function successor(i, which,    to) {
    if (which == 1) return i < instructions && instruction[i] !~ /^(jmp|ret|ud2)/ ? i + 1 : 0
    if (instruction[i] !~ /^j/) return 0
    to = instruction[i]
    sub(/^[a-z]+ \*?/, "", to)
    return to in label && label[to] <= instructions ? label[to] : 0
}

# The natural loop of a jump back to `head`: what reaches the jump without passing the head.
function add_loop(jump, head,    depth, stack, i, p) {
    is_head[head] = 1
    body[head, head] = 1
    stack[depth = 1] = jump
    while (depth > 0) {
        i = stack[depth--]
        if ((head, i) in body) continue
        body[head, i] = 1
        for (p = 1; p <= sources[i]; p++) stack[++depth] = source[i, p]
    }
}

function find_loops(    i, w, to, depth, path, next_edge, on_path, seen) {
    split("", body); split("", is_head); split("", source); split("", sources)
    for (i = 1; i <= instructions; i++)
        for (w = 1; w <= 2; w++)
            if ((to = successor(i, w)) > 0) source[to, ++sources[to]] = i
    path[depth = 1] = 1
    on_path[1] = seen[1] = 1
    while (depth > 0) {  # depth first: an edge to what is still on the path leads back
        i = path[depth]
        if (++next_edge[i] > 2) {
            delete on_path[i]
            depth--
            continue
        }
        to = successor(i, next_edge[i])
        if (to == 0) continue
        if (to in on_path) add_loop(i, to)
        else if (!(to in seen)) {
            path[++depth] = to
            on_path[to] = seen[to] = 1
        }
    }
}

# ---------------------------------------------------------------- what is in them

function count(head,    i, text) {
    adds = products = loads = stores = spills = 0
    for (i = 1; i <= instructions; i++) {
        if (!((head, i) in body)) continue
        text = instruction[i]
        if (text ~ /^(vfn?m(add|sub)|vdpbf16ps|addp[sd] )/) adds++
        if (text ~ /^mulp[sd] /) products++
        if (text !~ /%[xyz]mm/ || text !~ /\(/) continue
        if (text ~ /\)(\{%k[0-7]\})?$/) stores++
        else loads++
        if (text ~ /\(%rsp/ || (framed && text ~ /\(%rbp/)) spills++
    }
}

function check_loop(    step) {
    step = kernel ~ /tile$/ ? rows * vectors : kernel == "few_rows" ? rows * lanes : lanes
    if (hot % step) complain(hot " " what " in its loop, not a multiple of " step ".")
    if (spills > most_spills)
        complain("its loop moves " spills " vectors to or from the stack" (most_spills ? ", more than the " most_spills " known." : "."))
    if (spills > 0) return
    if (kernel ~ /tile$/ && loads * step > (rows + vectors) * adds)
        complain(loads " loads for " adds " multiply-adds; " rows + vectors " for each " step " are enough.")
    if (kernel != "pack_lanes" && stores > 0) complain("its loop stores " stores " vectors to memory.")
    if (products && products != adds) complain(products " products but " adds " sums in its loop.")
}

function check_function(    head, other, inner, best, row) {
    if (!recognise()) return
    kernels++
    find_loops()
    best = 0
    what = kernel == "pack_lanes" ? "vector stores" : "multiply-adds"
    for (head in is_head) {
        inner = 1
        for (other in is_head)
            if (other != head && (head, other) in body) inner = 0
        if (!inner) continue
        count(head)
        hot = kernel == "pack_lanes" ? stores : adds
        if (hot == 0) continue
        if (kernel != "soften") check_loop()
        if (hot <= best) continue
        best = hot
        most_spilled = spills
        row = sprintf("%-27s %-10s %s %6d %6d %7d %7d", name, compiler, level, adds, loads, stores, spills)
    }
    if (best == 0) complain("no innermost loop with " what ".")
    else print row
    if (kernel == "soften" && most_spilled) complain("its loop moves " most_spilled " vectors to or from the stack.")
    if (wide && !clears) complain("writes the upper halves of registers and has no vzeroupper.")
}

# ---------------------------------------------------------------- reading

/^_Z[A-Za-z0-9_]+:/ {
    symbol = $1
    sub(/:.*/, "", symbol)
    instructions = framed = wide = clears = 0
    split("", instruction); split("", label)
    next
}
/^\.L[A-Za-z0-9_]+:/ {
    sub(/:.*/, "", $1)
    label[$1] = instructions + 1
    next
}
/\.cfi_endproc/ { if (symbol != "") check_function(); symbol = ""; next }
/^[ \t]+[a-z]/ && symbol != "" {
    sub(/[ \t]*(#|;).*/, "")
    sub(/^[ \t]+/, "")
    gsub(/[ \t]+/, " ")
    instruction[++instructions] = $0
    if ($0 ~ /^movq %rsp, %rbp/) framed = 1
    if ($0 ~ /%[yz]mm/) wide = 1
    if ($0 ~ /^vzeroupper/) clears = 1
}
END {
    name = "kernels.cpp"
    if (kernels != expected) complain(kernels + 0 " kernels found instead of " expected ".")
    exit faults > 0
}
