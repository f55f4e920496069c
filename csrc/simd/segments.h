/* A table of 32 segments of a piecewise polynomial: each segment has a centre and the coefficients c0 to c6. Kept by
 * rows, each segment's numbers together, and by columns: every instruction set looks up what is faster for it. Both
 * are made of one list, LIST(R) being R(centre, c0, c1, c2, c3, c4, c5, c6) for each segment. */
#ifndef ORTWIN_SIMD_SEGMENTS_H
#define ORTWIN_SIMD_SEGMENTS_H

typedef struct ow_segments {
    float rows[32][8], columns[8][32];
} ow_segments;

#define SEGMENT_ROW(a, b, c, d, e, f, g, h) {a, b, c, d, e, f, g, h},
#define SEGMENT_CENTRE(a, b, c, d, e, f, g, h) a,
#define SEGMENT_C0(a, b, c, d, e, f, g, h) b,
#define SEGMENT_C1(a, b, c, d, e, f, g, h) c,
#define SEGMENT_C2(a, b, c, d, e, f, g, h) d,
#define SEGMENT_C3(a, b, c, d, e, f, g, h) e,
#define SEGMENT_C4(a, b, c, d, e, f, g, h) f,
#define SEGMENT_C5(a, b, c, d, e, f, g, h) g,
#define SEGMENT_C6(a, b, c, d, e, f, g, h) h,
#define SEGMENTS(LIST)                                                                                              \
    {                                                                                                               \
        {LIST(SEGMENT_ROW)}, {                                                                                      \
            {LIST(SEGMENT_CENTRE)}, {LIST(SEGMENT_C0)}, {LIST(SEGMENT_C1)}, {LIST(SEGMENT_C2)}, {LIST(SEGMENT_C3)}, \
                {LIST(SEGMENT_C4)}, {LIST(SEGMENT_C5)}, {                                                           \
                LIST(SEGMENT_C6)                                                                                    \
            }                                                                                                       \
        }                                                                                                           \
    }

#endif
