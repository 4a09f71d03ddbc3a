echo bom
