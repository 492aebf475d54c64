"""What is done to a picture before a network sees it."""

import io

import numpy as np

MEAN = np.array([0.485, 0.456, 0.406], np.float32) * 255
SCALE = 1 / (np.array([0.229, 0.224, 0.225], np.float32) * 255)


def of_pixels(pixels):
    """UINT8 [224,224,3] -> FP32 [1,3,224,224], normalised."""
    return np.ascontiguousarray(((pixels - MEAN) * SCALE).transpose(2, 0, 1))[None]


def of_file(data):
    """A picture file -> FP32 [1,3,224,224], its middle."""
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return of_pixels(np.asarray(image.resize((224, 224), Image.BILINEAR, (left, top, left + side, top + side))))
