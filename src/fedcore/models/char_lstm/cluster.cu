// Two layers of 256 LSTM units, all steps of time in one launch: a cluster of 16 blocks for every 8
// samples of a client.
//
// Block r owns units 16 r .. 16 r + 15 of both layers: 192 rows of weights, which it reads once and
// keeps, a third in shared memory and the rest in registers. Wave s holds time s of layer 0 and time
// s - 1 of layer 1. Blocks write into one another's shared memory and each waits for the bytes that it
// expects; a barrier of the cluster would wait for what is written to global memory too. Forward they
// hand out their new states, backward their shares of all slopes dh, which owners add in a fixed order:
//
//     a_t = x_t W_ih^T + b + h_{t-1} W_hh^T          dh_{t-1} = da_t W_hh,   dx_t = da_t W_ih
//
// Products are taken in three TF32 passes on tensor cores: w h = w' h' + w' h" + w" h', with w' the
// leading bits of w and w" the rest, which is float32 to the last bits. A fragment is 16 weights by 8
// samples; terms are taken in an order in which a lane's four are neighbours in memory.

constexpr int H = 256, BLOCKS = 16, OWN = H / BLOCKS, SAMPLES = 8, WARPS = 16, THREADS = 32 * WARPS;
constexpr int PAIRS = 12, HELD = 8;            // pairs of fragments a warp: all, and those in registers
constexpr int KEPT = WARPS * (PAIRS - HELD) * 32;  // and a block's in shared memory
constexpr int LETTER = SAMPLES * OWN;          // a layer's own units of a block, for all samples
constexpr int NARROW = 4 * OWN + 16;           // rows that lie in other banks than their neighbours
constexpr int CELL = SAMPLES * 20;             // one gate of the own units, for all samples, likewise

struct Pair { float4 upper, lower; };          // rows g and g + 8 of two fragments side by side

// The bits of x that TF32 keeps; volatile, or those of all weights would be kept beside them.
__device__ float leading(float x) {
    float kept;
    asm volatile("and.b32 %0, %1, 0xffffe000;" : "=f"(kept) : "f"(x));
    return kept;
}

__device__ float sigmoid(float x) {
    float shrunk = expf(-fabsf(x));
    return (x < 0 ? shrunk : 1.0f) / (1.0f + shrunk);
}

__device__ float squash(float x) {             // tanh
    float shrunk = expf(-2.0f * fabsf(x));
    return copysignf((1.0f - shrunk) / (1.0f + shrunk), x);
}

__device__ void multiply(float (&sum)[4], float a0, float a1, float a2, float a3, float b0, float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)),
                   "r"(__float_as_uint(a3)), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
}

// 8 terms: main gets the leading parts, rest what is left.
__device__ void product(float (&main)[4], float (&rest)[4],
                        float a0, float a1, float a2, float a3, float b0, float b1) {
    float l0 = leading(a0), l1 = leading(a1), l2 = leading(a2), l3 = leading(a3);
    float m0 = leading(b0), m1 = leading(b1);
    multiply(rest, l0, l1, l2, l3, b0 - m0, b1 - m1);
    multiply(rest, a0 - l0, a1 - l1, a2 - l2, a3 - l3, m0, m1);
    multiply(main, l0, l1, l2, l3, m0, m1);
}

__device__ void product(float (&main)[4], float (&rest)[4], Pair a, float4 b) {
    product(main, rest, a.upper.x, a.lower.x, a.upper.y, a.lower.y, b.x, b.y);
    product(main, rest, a.upper.z, a.lower.z, a.upper.w, a.lower.w, b.z, b.w);
}

__device__ unsigned address_of(const void* own) { return static_cast<unsigned>(__cvta_generic_to_shared(own)); }

// Where the same address of shared memory lies in another block.
__device__ unsigned in_block(unsigned block, unsigned address) {
    unsigned there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(block));
    return there;
}

__device__ void meet() { asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory"); }

// Bytes that arrive in one of two inboxes, which are used in turn: wave s reads number s & 1.
// Who sends for wave s + 2 has had everybody's letters of wave s, so inboxes are never overwritten.
struct Post {
    unsigned counters;  // address of two of 8 bytes
    __device__ explicit Post(const unsigned long long* place) : counters(address_of(place)) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(counters) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(counters + 8) : "memory");
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
    }
    __device__ unsigned counter(int wave) const { return counters + 8 * (wave & 1); }
    // All threads wait until so many bytes for a wave are here.
    __device__ void expect(int wave, int bytes) const {
        if (threadIdx.x == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::
                         "r"(counter(wave)), "r"(bytes) : "memory");
        for (unsigned done = 0; !done;)
            asm volatile("{\n.reg .pred p;\n"
                         "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
                         "selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(counter(wave)), "r"((wave - 1) >> 1 & 1) : "memory");
    }
};

// The pairs of a warp: the last ones in shared memory.
struct Weights {
    Pair held[HELD];
    Pair* kept;
    __device__ void put(int pair, Pair value) {
        if (pair < HELD) held[pair] = value;
        else kept[(pair - HELD) * 32] = value;
    }
    __device__ Pair get(int pair) const { return pair < HELD ? held[pair] : kept[(pair - HELD) * 32]; }
};

// gates [2, K, T, B, 4H] hold what does not wait and take the gates after their functions; states and
// cells [2, K, T + 1, B, H] are given at time 0; hidden [2, K, 4H, H], input [1, K, 4H, H].
extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, 1)
lstm_forward(float* gates, float* states, float* cells, const float* hidden, const float* input,
             int clients, int length, int batch) {
    extern __shared__ Pair kept[];
    __shared__ unsigned long long counters[2];
    float* inbox = reinterpret_cast<float*>(kept + KEPT);  // [2 waves, 2 layers, BLOCKS, SAMPLES, OWN]
    float* partial = inbox + 4 * BLOCKS * LETTER;          // [4 parts, 2 layers, 4 gates, CELL]
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    const int gate = warp % 4, part = warp / 4;            // of this warp's fragments
    const unsigned rank = blockIdx.x % BLOCKS;             // within the cluster
    const int cluster = blockIdx.x / BLOCKS, clusters = (batch + SAMPLES - 1) / SAMPLES;  // a client's
    const long client = cluster / clusters;
    const Post post(counters);

    Weights weights;
    weights.kept = kept + warp * (PAIRS - HELD) * 32 + lane;
    const float* matrices[3] = {hidden + client * 4 * H * H, input + client * 4 * H * H,
                                hidden + (clients + client) * 4 * H * H};
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
        const float* row = matrices[pair / 4] + (gate * H + rank * OWN + g) * H;
        int column = 64 * part + 16 * (pair % 4) + 4 * t;
        weights.put(pair, {*reinterpret_cast<const float4*>(row + column),
                           *reinterpret_cast<const float4*>(row + 8 * H + column)});
    }
    for (int i = thread; i < 4 * BLOCKS * LETTER; i += THREADS) inbox[i] = 0;

    // Threads of the first 8 warps own a cell each: a layer's unit for a sample.
    const int layer = thread / LETTER, sample = thread / OWN % SAMPLES, unit = thread % OWN;
    const int row = cluster % clusters * SAMPLES + sample;  // among all of the client's
    const bool owner = layer < 2, known = owner && row < batch;
    const long place = owner ? layer * clients + client : 0;
    float* own_gates = gates + (place * length * batch + row) * 4 * H + rank * OWN + unit;
    const long own = (place * (length + 1) * batch + row) * H + rank * OWN + unit;
    float cell = 0, waiting[4] = {0, 0, 0, 0};
    if (known && layer == 0)
        for (int i = 0; i < 4; ++i) waiting[i] = own_gates[i * H];
    meet();

    for (int wave = 0; wave <= length; ++wave) {
        const float* seen = inbox + ((wave & 1) * 2 * BLOCKS + 4 * part) * LETTER + 4 * lane;
        float main[2][4] = {}, rest[2][4] = {};
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            float4 below = *reinterpret_cast<const float4*>(seen + step * LETTER);
            float4 above = *reinterpret_cast<const float4*>(seen + (BLOCKS + step) * LETTER);
            product(main[0], rest[0], weights.get(step), below);
            product(main[1], rest[1], weights.get(4 + step), below);
            product(main[1], rest[1], weights.get(8 + step), above);
        }
#pragma unroll
        for (int of = 0; of < 2; ++of)
#pragma unroll
            for (int i = 0; i < 4; ++i)  // unit g or g + 8, sample 2 t or 2 t + 1
                partial[((part * 2 + of) * 4 + gate) * CELL + (2 * t + i % 2) * 20 + g + i / 2 * 8] =
                    main[of][i] + rest[of][i];
        __syncthreads();
        const int time = wave - layer;
        if (owner && time >= 0 && time < length) {
            float active[4];
#pragma unroll
            for (int of = 0; of < 4; ++of) {
                float total = waiting[of];
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    total += partial[((i * 2 + layer) * 4 + of) * CELL + sample * 20 + unit];
                active[of] = of == 2 ? squash(total) : sigmoid(total);
            }
            cell = active[1] * cell + active[0] * active[2];
            float state = active[3] * squash(cell);
            const int from = 4 * (lane % 8);  // a lane takes four neighbours, eight lanes all of the warp's
            const float four[4] = {__shfl_sync(~0u, state, from), __shfl_sync(~0u, state, from + 1),
                                   __shfl_sync(~0u, state, from + 2), __shfl_sync(~0u, state, from + 3)};
            const float* slot = inbox + ((((wave + 1) & 1) * 2 + layer) * BLOCKS + rank) * LETTER +
                                sample / 2 * 2 * OWN + from;
#pragma unroll
            for (int i = 0; i < 4 && wave < length; ++i) {
                unsigned block = 4 * i + lane / 8;
                asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 "
                             "[%0], {%1,%2,%3,%4}, [%5];" :: "r"(in_block(block, address_of(slot))),
                             "f"(four[0]), "f"(four[1]), "f"(four[2]), "f"(four[3]),
                             "r"(in_block(block, post.counter(wave + 1))) : "memory");
            }
            if (known) {
                for (int i = 0; i < 4; ++i) own_gates[(long(time) * batch * 4 + i) * H] = active[i];
                states[own + long(time + 1) * batch * H] = state;
                cells[own + long(time + 1) * batch * H] = cell;
            }
        }
        if (known && time + 1 >= 0 && time + 1 < length)
            for (int i = 0; i < 4; ++i) waiting[i] = own_gates[(long(time + 1) * batch * 4 + i) * H];
        if (wave < length) post.expect(wave + 1, (wave ? 2 : 1) * BLOCKS * LETTER * 4);
    }
    meet();
}

// From slopes upstream [K, B, H] of the last state of layer 1 to slopes [2, K, T, B, 4H], da.
extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS, 1)
lstm_backward(const float* gates, const float* cells, const float* upstream, float* slopes,
              const float* hidden, const float* input, int clients, int length, int batch) {
    extern __shared__ Pair kept[];
    __shared__ unsigned long long counters[2];
    float* inbox = reinterpret_cast<float*>(kept + KEPT);  // [2 waves, BLOCKS, 2 layers, OWN, SAMPLES]
    float* ours = inbox + 4 * BLOCKS * LETTER;             // da of own units: [2 waves, 2, SAMPLES, NARROW]
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32, g = lane / 4, t = lane % 4;
    const unsigned rank = blockIdx.x % BLOCKS;             // within the cluster
    const int cluster = blockIdx.x / BLOCKS, clusters = (batch + SAMPLES - 1) / SAMPLES;  // a client's
    const long client = cluster / clusters;
    const Post post(counters);

    // Warp r has the shares for the units of block r; the terms are the gates of own units.
    Weights weights;
    weights.kept = kept + warp * (PAIRS - HELD) * 32 + lane;
    const float* matrices[3] = {hidden + client * 4 * H * H, input + client * 4 * H * H,
                                hidden + (clients + client) * 4 * H * H};
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair) {
        const float* at = matrices[pair / 4] + (pair % 4 * H + rank * OWN + 4 * t) * H + warp * OWN + g;
        weights.put(pair, {{at[0], at[H], at[2 * H], at[3 * H]},
                           {at[8], at[H + 8], at[2 * H + 8], at[3 * H + 8]}});
    }
    for (int i = thread; i < 4 * BLOCKS * LETTER + 4 * SAMPLES * NARROW; i += THREADS) inbox[i] = 0;

    const int layer = thread / LETTER, unit = thread / SAMPLES % OWN, sample = thread % SAMPLES;
    const int row = cluster % clusters * SAMPLES + sample;  // among all of the client's
    const bool owner = layer < 2, known = owner && row < batch;
    const long place = owner ? layer * clients + client : 0;
    const long own_gates = (place * length * batch + row) * 4 * H + rank * OWN + unit;
    const float* own_cells = cells + (place * (length + 1) * batch + row) * H + rank * OWN + unit;
    float after = 0, gate[4] = {0, 0, 0, 0}, now = 0, before = 0;  // dc of the time after
    const int last = length - 1;
    float given = known && layer == 1 ? upstream[(client * batch + row) * H + rank * OWN + unit] : 0;
    auto fetch = [&](int time) {
        if (!known || time < 0 || time > last) return;
        for (int i = 0; i < 4; ++i) gate[i] = gates[own_gates + (long(time) * batch * 4 + i) * H];
        now = own_cells[long(time + 1) * batch * H];
        before = own_cells[long(time) * batch * H];
    };
    fetch(last);
    meet();

    for (int wave = 0; wave <= length; ++wave) {
        const int time = last - wave + (1 - layer);
        if (owner && time >= 0 && time <= last) {
            float slope = given;
            given = 0;
#pragma unroll
            for (int i = 0; i < BLOCKS; ++i)
                slope += inbox[((wave & 1) * BLOCKS + i) * 2 * LETTER + thread];
            float squashed = squash(now);
            after += slope * gate[3] * (1 - squashed * squashed);
            float da[4] = {after * gate[2] * gate[0] * (1 - gate[0]),
                           after * before * gate[1] * (1 - gate[1]),
                           after * gate[0] * (1 - gate[2] * gate[2]),
                           slope * squashed * gate[3] * (1 - gate[3])};
            after *= gate[1];
            for (int i = 0; i < 4; ++i) {
                ours[(((wave & 1) * 2 + layer) * SAMPLES + sample) * NARROW + i * OWN + unit] = da[i];
                if (known) slopes[own_gates + (long(time) * batch * 4 + i) * H] = da[i];
            }
        }
        if (wave == length) break;
        __syncthreads();
        const float* seen = ours + ((wave & 1) * 2 * SAMPLES + g) * NARROW + 4 * t;
        float main[2][4] = {}, rest[2][4] = {};
#pragma unroll
        for (int step = 0; step < 4; ++step) {
            float4 below = *reinterpret_cast<const float4*>(seen + 16 * step);
            float4 above = *reinterpret_cast<const float4*>(seen + SAMPLES * NARROW + 16 * step);
            product(main[0], rest[0], weights.get(step), below);
            product(main[0], rest[0], weights.get(4 + step), above);
            product(main[1], rest[1], weights.get(8 + step), above);
        }
        const float* slot = inbox + (((wave + 1) & 1) * BLOCKS + rank) * 2 * LETTER + g * SAMPLES + 2 * t;
        const unsigned there = in_block(warp, address_of(slot)), counter = in_block(warp, post.counter(wave + 1));
#pragma unroll
        for (int i = 0; i < 4; ++i) {  // of a layer unit g or g + 8, samples 2 t and 2 t + 1
            const int of = i / 2, upper = i % 2 * 2;
            asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 "
                         "[%0], {%1,%2}, [%3];" :: "r"(there + 4 * (of * LETTER + upper * 4 * SAMPLES)),
                         "f"(main[of][upper] + rest[of][upper]),
                         "f"(main[of][upper + 1] + rest[of][upper + 1]), "r"(counter) : "memory");
        }
        fetch(time - 1);
        post.expect(wave + 1, 2 * BLOCKS * LETTER * 4);
    }
    meet();
}
