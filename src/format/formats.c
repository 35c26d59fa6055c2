/* formats.c - the list of all formats, which alone knows the folders below. */
#include "format/format.h"

/* One line a format: two who add one do not meet. */
const hr_format *const hr__formats[] = {
    &hr__format_parquet,    //
    &hr__format_csv,        //
    &hr__format_json,       //
    &hr__format_text,       //
    &hr__format_binary,     //
    &hr__format_numpy,      //
    &hr__format_images,     //
    &hr__format_tfrecords,  //
    &hr__format_webdataset, //
    &hr__format_arrow,      //
    NULL,
};
